"""Programs of one thread, written by hand."""

from functools import cache

from xdsl.parser import Parser

from lamina.dialects.simt import KernelOp
from lamina.testing.kernels import context


@cache
def parse(text: str) -> KernelOp:
    """The kernel of a text that holds one."""
    module = Parser(context(), text).parse_module()
    module.verify()
    return module.body.block.first_op


def kernel(
    body: str,
    args: str = "%x: memref<?xf32>, %y: memref<?xf32>",
    access: str = '"read", "update"',
    grid: str = "1",
    threads: int = 64,
    more: str = "",
) -> KernelOp:
    """A kernel of one symbol, n, with the thread's number %t and a constant 0 at hand."""
    return parse(f"""simt.kernel @k attributes {{symbols = ["n"], grid = ["{grid}"],
        access = [{access}], threads = {threads} : i64, subgroup = 32 : i64{more}}} {{
    ^bb0({args}, %n: index):
      %t = simt.thread_id
      %c0 = arith.constant 0 : index
      {body}
      tile.return
    }}""")


def checks(ok: str, *nodes: str) -> str:
    """Checks of the truth value `ok`, one for each node that they name."""
    lines = [
        f"""
  %node{n} = simt.node {{node = "{node}"}}
  %before{n} = simt.atomic %node{n}, %word[%c0] expected %none : i32 mask %failed : i1
    {{kind = "compare_exchange"}} : i32, memref<1xi32>, index -> i32"""
        for n, node in enumerate(nodes)
    ]
    return f"""
  %true = arith.constant true
  %failed = arith.xori {ok}, %true : i1
  %none = arith.constant 0 : i32
  %word = simt.error_word : memref<1xi32>{"".join(lines)}"""


SUM = """
  %b = tile.program_id {dim = 0 : i64}
  %lanes = simt.memory : memref<2xf32, "workgroup">
  %step = arith.constant 64 : index
  %width = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %start = arith.muli %b, %n : index
  %own = scf.for %i = %c0 to %n step %step iter_args(%sum = %zero) -> (f32) {
    %at = arith.addi %i, %t : index
    %in = arith.cmpi slt, %at, %n : index
    %place = arith.addi %start, %at : index
    %v = simt.load %x[%place] mask %in : i1 : memref<?x?xf32>, index -> f32
    %more = arith.addf %sum, %v : f32
    scf.yield %more : f32
  }
  %s16 = simt.shuffle %own {xor = 16 : i64} : (f32) -> f32
  %a16 = arith.addf %own, %s16 : f32
  %s8 = simt.shuffle %a16 {xor = 8 : i64} : (f32) -> f32
  %a8 = arith.addf %a16, %s8 : f32
  %s4 = simt.shuffle %a8 {xor = 4 : i64} : (f32) -> f32
  %a4 = arith.addf %a8, %s4 : f32
  %s2 = simt.shuffle %a4 {xor = 2 : i64} : (f32) -> f32
  %a2 = arith.addf %a4, %s2 : f32
  %s1 = simt.shuffle %a2 {xor = 1 : i64} : (f32) -> f32
  %a1 = arith.addf %a2, %s1 : f32
  %group = arith.divui %t, %width : index
  %lane = arith.remui %t, %width : index
  %first = arith.cmpi eq, %lane, %c0 : index
  simt.store %a1, %lanes[%group] mask %first : i1 : f32, memref<2xf32, "workgroup">, index
  simt.barrier
  %both = arith.constant dense<[0, 1]> : vector<2xindex>
  %parts = simt.load %lanes[%both] : memref<2xf32, "workgroup">, vector<2xindex> -> vector<2xf32>
  %p = simt.pick %parts {at = array<i64: 0>} : (vector<2xf32>) -> f32
  %q = simt.pick %parts {at = array<i64: 1>} : (vector<2xf32>) -> f32
  %all = arith.addf %p, %q : f32
  %one = arith.cmpi eq, %t, %c0 : index
  simt.store %all, %y[%b] mask %one : i1 : f32, memref<?xf32>, index
"""
"""`y[b] = sum(x[b, :])`, by subgroups and then by the block; `n` numbers a row."""

SUM_ARGS = "%x: memref<?x?xf32>, %y: memref<?xf32>"

TRANSPOSE = """
  %tile = simt.memory : memref<272xf32, "workgroup">
  %i = tile.program_id {dim = 0 : i64}
  %j = tile.program_id {dim = 1 : i64}
  %k16 = arith.constant 16 : index
  %rows = simt.extent %x {dim = 0 : i64} : memref<?x?xf32>
  %row0 = arith.muli %i, %k16 : index
  %column0 = arith.muli %j, %k16 : index
  %r = arith.divui %t, %k16 : index
  %c = arith.remui %t, %k16 : index
  %k17 = arith.constant 17 : index
  %k17s = arith.constant dense<17> : vector<4xindex>
  %four = arith.constant dense<[0, 4, 8, 12]> : vector<4xindex>
  %rs = tile.splat %r : (index) -> vector<4xindex>
  %cs = tile.splat %c : (index) -> vector<4xindex>
  %down = arith.addi %rs, %four : vector<4xindex>

  %row0s = tile.splat %row0 : (index) -> vector<4xindex>
  %column0s = tile.splat %column0 : (index) -> vector<4xindex>
  %rowsv = tile.splat %rows : (index) -> vector<4xindex>
  %ns = tile.splat %n : (index) -> vector<4xindex>

  %xr = arith.addi %down, %row0s : vector<4xindex>
  %xc = arith.addi %cs, %column0s : vector<4xindex>
  %m0 = tile.compare %xr, %rowsv {kind = "lt"} : (vector<4xindex>, vector<4xindex>) -> vector<4xi1>
  %m1 = tile.compare %xc, %ns {kind = "lt"} : (vector<4xindex>, vector<4xindex>) -> vector<4xi1>
  %m = arith.andi %m0, %m1 : vector<4xi1>
  %xrow = arith.muli %xr, %ns : vector<4xindex>
  %from = arith.addi %xrow, %xc : vector<4xindex>
  %v = simt.load %x[%from] mask %m : vector<4xi1> : memref<?x?xf32>, vector<4xindex> -> vector<4xf32>
  %d17 = arith.muli %down, %k17s : vector<4xindex>
  %into = arith.addi %d17, %cs : vector<4xindex>
  simt.store %v, %tile[%into] : vector<4xf32>, memref<272xf32, "workgroup">, vector<4xindex>
  simt.barrier
  %c17 = arith.muli %c, %k17 : index
  %c17s = tile.splat %c17 : (index) -> vector<4xindex>
  %out = arith.addi %c17s, %down : vector<4xindex>
  %w = simt.load %tile[%out] : memref<272xf32, "workgroup">, vector<4xindex> -> vector<4xf32>
  %yr = arith.addi %down, %column0s : vector<4xindex>
  %yc = arith.addi %cs, %row0s : vector<4xindex>
  %m2 = tile.compare %yr, %ns {kind = "lt"} : (vector<4xindex>, vector<4xindex>) -> vector<4xi1>
  %m3 = tile.compare %yc, %rowsv {kind = "lt"} : (vector<4xindex>, vector<4xindex>) -> vector<4xi1>
  %mm = arith.andi %m2, %m3 : vector<4xi1>
  %yrow = arith.muli %yr, %rowsv : vector<4xindex>
  %to = arith.addi %yrow, %yc : vector<4xindex>
  simt.store %w, %y[%to] mask %mm : vector<4xi1> : vector<4xf32>, memref<?x?xf32>, vector<4xindex>
"""
"""`y[j, i] = x[i, j]` by tiles of 16 x 16 in shared memory, whose rows are 17 apart."""

TRANSPOSE_ARGS = "%x: memref<?x?xf32>, %y: memref<?x?xf32>"
