import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

import lamina
from lamina.compiler import run_passes
from lamina.dialects.text import parse_module
from lamina.passes.decompose_math import DecomposeMathPass
from lamina.passes.fuse_launches import FuseLaunchesPass
from lamina.passes.plan_memory import PlanMemoryPass
from lamina.passes.verify_plan import VerifyPlanPass
from lamina.plugins import manager
from lamina.testing.kernels import context

F32 = np.float32


def verify(body: str, threads: int = 64, subgroup: int = 32) -> None:
    text = f"""simt.kernel @k attributes {{symbols = ["n"], grid = ["n"], access = ["read"],
        threads = {threads} : i64, subgroup = {subgroup} : i64}} {{
    ^bb0(%x: memref<?xi32>, %n: index):
      %t = simt.thread_id
      %p = tile.program_id {{dim = 0 : i64}}
      %e = simt.extent %x {{dim = 0 : i64}} : memref<?xi32>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %v = simt.load %x[%p] : memref<?xi32>, index -> i32
      %r = tile.splat %v : (i32) -> vector<2xi32>
      {body}
      tile.return
    }}"""
    Parser(context(), text).parse_module().verify()


IF = "%q = arith.cmpi slt, %{a}, %{b} : index\nscf.if %q {{ {inside} }}"
FOR = "scf.for %l = %c0 to %{b} step %c1 {{ {inside} }}"
BARRIER = "simt.barrier"
CARRIED = """
  scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0) -> (index) {
    scf.for %j = %c0 to %a step %c1 {
      simt.barrier
    }
    scf.yield %t : index
  }"""
CHOSEN = """
  %q = arith.cmpi slt, %n, %c1 : index
  %a = scf.if %q -> (index) {
    scf.yield %t : index
  } else {
    scf.yield %n : index
  }
  scf.for %j = %c0 to %a step %c1 { simt.barrier }"""
OPEN = """
  %w = scf.while (%a = %n) : (index) -> (index) {{
    %q = arith.cmpi slt, %c0, %a : index
    scf.condition(%q) %a : index
  }} do {{
  ^bb1(%b: index):
    {}
    scf.yield %c0 : index
  }}
  scf.for %j = %c0 to %w step %c1 {{ {} }}"""
AT = "%at = arith.constant dense<[{places}]> : vector<{count}xindex>\n"
RUN = (
    AT
    + """%m = simt.memory : memref<64x{kind}, "workgroup">
  %s = simt.load %m[%at] {{run = {run} : i64}}
    : memref<64x{kind}, "workgroup">, vector<{count}xindex> -> vector<{count}x{kind}>"""
)
STORED_RUN = (
    AT.replace("{count}", "2")
    + """%m = simt.memory : memref<64xi32, "workgroup">
  simt.store %r, %m[%at] {{run = 2 : i64}}
    : vector<2xi32>, memref<64xi32, "workgroup">, vector<2xindex>"""
)
COPIED_RUN = (
    AT.replace("{count}", "2")
    + """%m = simt.memory : memref<64xi32, "workgroup">
  %to = arith.constant dense<[{to}]> : vector<2xindex>
  simt.copy_async %x[%at], %m[%to] {{run = 2 : i64}}
    : memref<?xi32>, vector<2xindex>, memref<64xi32, "workgroup">, vector<2xindex>"""
)
REDUCE = '%s = simt.subgroup_reduce %v {{kind = "{kind}"{more}}} : ({type}) -> {type}'
ATOMIC = '%o = simt.atomic %v, %x[%c0] {more} {{kind = "{kind}"}} : {type}, memref<?xi32>, index -> {type}'
MET = r"all threads meet in {}, but not all may come to it: .* ways in the {}"

REFUSED = {
    "a barrier by the thread": (
        IF.format(a="t", b="c1", inside=BARRIER),
        MET.format("simt.barrier", "scf.if"),
    ),
    "a barrier as often as the thread's number": (
        FOR.format(b="t", inside=BARRIER),
        MET.format("simt.barrier", "scf.for"),
    ),
    "a barrier by what was loaded": (
        "%i = tile.cast %v : (i32) -> index\n" + IF.format(a="i", b="c1", inside=BARRIER),
        MET.format("simt.barrier", "scf.if"),
    ),
    "a barrier in a loop in a branch": (
        IF.format(a="t", b="c1", inside=FOR.format(b="n", inside=BARRIER)),
        MET.format("simt.barrier", "scf.if"),
    ),
    "a barrier by what goes round a loop": (CARRIED, MET.format("simt.barrier", "scf.for")),
    "a barrier by what a branch gives": (CHOSEN, MET.format("simt.barrier", "scf.for")),
    "a barrier in an open loop": (
        OPEN.format(BARRIER, ""),
        MET.format("simt.barrier", "scf.while"),
    ),
    "a barrier by what an open loop gives": (
        OPEN.format("", BARRIER),
        MET.format("simt.barrier", "scf.for"),
    ),
    "a shuffle by the thread": (
        IF.format(a="t", b="c1", inside="%s = simt.shuffle %v {xor = 1 : i64} : (i32) -> i32"),
        MET.format("simt.shuffle", "scf.if"),
    ),
    "a uniform value by the thread": (
        IF.format(a="t", b="c1", inside="%s = simt.uniform %v : (i32) -> i32"),
        MET.format("simt.uniform", "scf.if"),
    ),
    "a reduction by the thread": (
        IF.format(a="t", b="c1", inside=REDUCE.format(kind="add", more="", type="i32")),
        MET.format("simt.subgroup_reduce", "scf.if"),
    ),
    "a reduction by an exchange": (
        REDUCE.format(kind="xor", more="", type="i32"),
        "kind is xor, expected one of add, mul, max, min, and, or",
    ),
    "a sum of floats in any order": (
        "%f = tile.cast %v : (i32) -> f32\n"
        + REDUCE.replace("%v", "%f").format(kind="add", more="", type="f32"),
        "a reduction by add of f32, expected i32",
    ),
    "a sum of truth values": (
        "%f = tile.cast %v : (i32) -> i1\n"
        + REDUCE.replace("%v", "%f").format(kind="add", more="", type="i1"),
        "a reduction by add of i1, expected i32",
    ),
    "clusters beyond the subgroup": (
        REDUCE.format(kind="add", more=", cluster = 64 : i64", type="i32"),
        "clusters of 64 in a subgroup of 32",
    ),
    "clusters of three": (
        REDUCE.format(kind="add", more=", cluster = 3 : i64", type="i32"),
        "clusters of 3 in a subgroup of 32",
    ),
    "an exchange that nothing is": (
        ATOMIC.format(kind="swap", more="", type="i32"),
        "kind is swap, expected one of add, max,",
    ),
    "the larger of floats at once": (
        "%f = tile.cast %v : (i32) -> f32\n"
        '%m = simt.memory : memref<4xf32, "workgroup">\n'
        '%o = simt.atomic %f, %m[%c0] {kind = "max"} : f32, memref<4xf32, "workgroup">, index -> f32',
        "an atomic max of f32, expected i32",
    ),
    "a comparison with nothing": (
        ATOMIC.format(kind="compare_exchange", more="", type="i32"),
        "a compare_exchange says what it expects",
    ),
    "a sum that expects something": (
        ATOMIC.format(kind="add", more="expected %v : i32", type="i32"),
        "a compare_exchange says what it expects, nothing else does",
    ),
    "a change of another type": (
        "%f = tile.cast %v : (i32) -> f32\n"
        + ATOMIC.replace("%v", "%f").format(kind="add", more="", type="f32"),
        "f32 in a memory of i32",
    ),
    "more than one error word": (
        "%w = simt.error_word : memref<2xi32>",
        "the error word is memref<2xi32>",
    ),
    "a check of a tile": (
        '%q = arith.constant true\ntile.check %q {node = "here"} : i1',
        "tile.check is of whole tiles",
    ),
    "a branch by what was changed": (
        ATOMIC.format(kind="add", more="", type="i32")
        + "\n%i = tile.cast %o : (i32) -> index\n"
        + IF.format(a="i", b="c1", inside=BARRIER),
        MET.format("simt.barrier", "scf.if"),
    ),
    "a run of three": (
        RUN.format(places="0, 1, 2", count=3, run=3, kind="i32"),
        r"runs of 3 in vector<3xindex>",
    ),
    "a run that does not divide the registers": (
        RUN.format(places="0, 1, 2", count=3, run=2, kind="i32"),
        r"runs of 2 in vector<3xindex>",
    ),
    "a run of truth values": (
        RUN.format(places="0, 1", count=2, run=2, kind="i1"),
        "a run of 2 i1: one access takes whole bytes, 16 at most",
    ),
    "a run of more than one access takes": (
        RUN.format(places="0, 1, 2, 3, 4, 5, 6, 7", count=8, run=8, kind="i32"),
        "a run of 8 i32: one access takes whole bytes, 16 at most",
    ),
    "a run of one element": (
        "%s = simt.load %x[%t] {run = 2 : i64} : memref<?xi32>, index -> i32",
        "a run of i32",
    ),
    "a run whose places are apart": (
        RUN.format(places="0, 2", count=2, run=2, kind="i32"),
        r"places \[0, 2\] are no run of 2 that is aligned",
    ),
    "a run that begins at an odd place": (
        RUN.format(places="0, 1, 3, 4", count=4, run=2, kind="i32"),
        r"places \[3, 4\] are no run of 2 that is aligned",
    ),
    "a store of a run that begins at an odd place": (
        STORED_RUN.format(places="5, 6"),
        r"places \[5, 6\] are no run of 2 that is aligned",
    ),
    "a copy of a run that begins at an odd place": (
        COPIED_RUN.format(places="1, 2", to="0, 1"),
        r"places \[1, 2\] are no run of 2 that is aligned",
    ),
    "a copy to a run that begins at an odd place": (
        COPIED_RUN.format(places="0, 1", to="7, 8"),
        r"places \[7, 8\] are no run of 2 that is aligned",
    ),
    "rows of a matrix that begin between": (
        "%at = arith.constant dense<[8, 12]> : vector<2xindex>\n"
        '%m = simt.memory : memref<64xi16, "workgroup">\n'
        "%s = simt.load_matrix %m[%at] {count = 1 : i64}"
        ' : memref<64xi16, "workgroup">, vector<2xindex> -> vector<4xi16>',
        r"rows at \[8, 12\] begin at no multiple of 8 elements",
    ),
    "more shared memory than any block has": (
        "".join(f'%m{n} = simt.memory : memref<4000000xi32, "workgroup">\n' for n in range(2)),
        "32000000 bytes, a block shares 16777216 at most",
    ),
    "shared memory without a size": (
        '%m = simt.memory : memref<?xi32, "workgroup">',
        "shared memory has a static size",
    ),
    "shared memory elsewhere": (
        "%m = simt.memory : memref<4xi32>",
        "the memory space is",
    ),
    "a product of tiles": (
        "%d = tile.reduce %r {kind = 'add', dims = array<i64: 0>} : (vector<2xi32>) -> i32".replace(
            "'", '"'
        ),
        r"tile\.reduce is of whole tiles",
    ),
    "shared memory in a loop": (
        FOR.format(b="n", inside='%m = simt.memory : memref<4xi32, "workgroup">'),
        r"simt\.memory stands at the top",
    ),
    "a shuffle out of the subgroup": (
        "%s = simt.shuffle %v {xor = 32 : i64} : (i32) -> i32",
        "xor is 32 in a subgroup of 32",
    ),
    "a register too many": (
        "%s = simt.pick %r {at = array<i64: 2>} : (vector<2xi32>) -> i32",
        r"registers \(2,\) of 2",
    ),
    "places of another number": (
        "%s = simt.load %x[%t] : memref<?xi32>, index -> vector<2xi32>",
        "places index for vector<2xi32>",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_kernel_is_refused_that_has(name: str) -> None:
    body, said = REFUSED[name]
    with pytest.raises(VerifyException, match=said):
        verify(body)


@pytest.mark.parametrize(("threads", "subgroup"), [(0, 32), (48, 32), (24, 24)])
def test_subgroups_fill_a_block(threads: int, subgroup: int) -> None:
    with pytest.raises(VerifyException, match="subgroup"):
        verify("", threads, subgroup)


def test_a_block_has_a_thousand_threads_at_most() -> None:
    with pytest.raises(VerifyException, match="2048 threads, a block has 1024 at most"):
        verify("", 2048)


@pytest.mark.parametrize(
    "body",
    [
        RUN.format(places="8, 9, 4, 5", count=4, run=2, kind="i32"),
        IF.format(a="n", b="c1", inside=BARRIER),
        FOR.format(b="e", inside=IF.format(a="p", b="l", inside=BARRIER)),
        IF.format(a="t", b="c1", inside="%s = arith.addi %t, %t : index"),
        CARRIED.replace("scf.yield %t", "scf.yield %i"),
        CHOSEN.replace("scf.yield %t", "scf.yield %p"),
        "%u = simt.uniform %v : (i32) -> i32\n%i = tile.cast %u : (i32) -> index\n"
        + FOR.format(b="i", inside=BARRIER),
    ],
)
def test_what_all_threads_come_to_and_what_is_aligned_is_taken(body: str) -> None:
    verify(body)


T = 'tensor<?xf32, #nn.dims<["T"]>>'
PLANNED = """builtin.module {
  simt.kernel @square attributes {symbols = ["n"], grid = ["ceildiv(n, 32)"],
      access = ["read", "write"], aliases = [[0, 1]], threads = 32 : i64, subgroup = 32 : i64} {
  ^bb0(%x: memref<?xf32>, %y: memref<?xf32>, %n: index):
    %b = tile.program_id {dim = 0 : i64}
    %t = simt.thread_id
    %k = arith.constant 32 : index
    %s = arith.muli %b, %k : index
    %at = arith.addi %s, %t : index
    %in = arith.cmpi slt, %at, %n : index
    %v = simt.load %x[%at] mask %in : i1 : memref<?xf32>, index -> f32
    %w = math.exp %v : f32
    simt.store %w, %y[%at] mask %in : i1 : f32, memref<?xf32>, index
    tile.return
  }
  func.func @forward(%x: BT {lamina.input = "x"}, %y: BT {lamina.output = "y"}) {
    %a = plan.alloc : BT
    plan.launch { plan.call @square(%x, %a) {symbols = ["T"]} : BT, BT }
    %b = plan.alloc : BT
    plan.launch { plan.call @square(%a, %b) {symbols = ["T"]} : BT, BT }
    plan.launch { plan.call @square(%b, %y) {symbols = ["T"]} : BT, BT }
    plan.return
  }
}""".replace("BT", f"!plan.buffer<{T}>")
PASSES = (FuseLaunchesPass(), PlanMemoryPass(), VerifyPlanPass(), DecomposeMathPass())


def planned() -> Any:
    module = parse_module(manager.context(), PLANNED, "test")
    run_passes(manager.context(), module, PASSES)
    module.verify()
    return module


def test_a_plan_of_simt_kernels_is_printed_and_read_back() -> None:
    text = str(planned())
    assert str(parse_module(manager.context(), text, "test")) == text


def test_passes_over_plans_and_functions_take_simt_kernels() -> None:
    text = str(planned())
    assert "math.exp" not in text
    assert text.count('offset = "0"') == 2, "one buffer is written over the other"


@pytest.mark.parametrize("size", [0, 1, 3, 31, 1000])
def test_a_plan_of_simt_kernels_runs_at_every_stage(size: int, tmp_path: Path) -> None:
    x, path = np.linspace(-3, 0, size, dtype=F32), tmp_path / "stage.mlir"
    path.write_text(str(planned()))
    for model in (lamina.read(path), parse_module(manager.context(), PLANNED, "test")):
        y = lamina.compile(model, "reference", pipeline="")(x=x)["y"]
        np.testing.assert_allclose(y, np.exp(np.exp(np.exp(x))), rtol=1e-5)


def test_a_target_without_rules_for_threads_says_so() -> None:
    with pytest.raises(lamina.LaminaError, match=re.escape("cpu has no rule for simt.kernel")):
        lamina.compile(planned(), "cpu", pipeline="")
