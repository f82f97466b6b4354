"""Programs of a block whose threads must wait for each other at just the right places."""

import numpy as np
import pytest
from xdsl.parser import Parser

from lamina.dialects import simt, tile
from lamina.errors import InputError, LaminaError, LoweringError
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.targets.reference.kernel import run_kernel
from lamina.targets.reference.simt import run_simt_kernel
from lamina.testing.kernels import context

COPIED = {"threads": 64, "subgroup": 32, "narrow": True, "stages": 3}
SMALL = {"threads": 32, "subgroup": 32, "narrow": True}
PLAIN = {"threads": 64, "subgroup": 8}


def kernel(arguments: str, access: str, body: str, more: str = "") -> str:
    words = ", ".join(f'"{each}"' for each in access.split())
    return f"""
    tile.kernel @k attributes {{symbols = ["n"], grid = ["1"], access = [{words}]{more}}} {{
    ^bb0({arguments}, %n: index):
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c16 = arith.constant 16 : index
      {body}
      tile.return
    }}
    """


def lowered(text: str, **options: int) -> tuple[tile.KernelOp, simt.KernelOp]:
    module, again = (Parser(context(), text).parse_module() for _ in range(2))
    ChooseLayoutsPass(options["threads"], fragments=True).apply(context(), again)
    LowerTilesPass(**options).apply(context(), again)
    again.verify()
    return module.body.block.first_op, again.body.block.first_op  # type: ignore[return-value]


STORE_IN_A_LOOP = kernel(
    "%x: memref<64xf32>, %y: memref<128xf32>",
    "read update",
    """%v = tile.load %x[%c0] {shape = array<i64: 64>} : memref<64xf32>[index] -> vector<64xf32>
    scf.for %i = %c0 to %c4 step %c1 {
      tile.store %v, %y[%i] {shape = array<i64: 64>} : vector<64xf32>, memref<128xf32>[index]
    }""",
)
READ_IN_A_LOOP = kernel(
    "%x: memref<64xf32>, %y: memref<16xf32>",
    "read write",
    """%m = tile.scratch : memref<64xf32>
    %v = tile.load %x[%c0] {shape = array<i64: 64>} : memref<64xf32>[index] -> vector<64xf32>
    tile.store %v, %m[%c0] {shape = array<i64: 64>} : vector<64xf32>, memref<64xf32>[index]
    %none = arith.constant dense<0.0> : vector<16xf32>
    %total = scf.for %i = %c0 to %c16 step %c4 iter_args(%s = %none) -> (vector<16xf32>) {
      %w = tile.load %m[%i] {shape = array<i64: 16>} : memref<64xf32>[index] -> vector<16xf32>
      %t = arith.addf %s, %w : vector<16xf32>
      scf.yield %t : vector<16xf32>
    }
    tile.store %total, %y[%c0] {shape = array<i64: 16>} : vector<16xf32>, memref<16xf32>[index]""",
)
STEERED_BY_A_TILE = kernel(
    "%x: memref<64xf32>, %y: memref<128xf32>",
    "read update",
    """%v = tile.load %x[%c1] {shape = array<i64: 1>} : memref<64xf32>[index] -> vector<1xf32>
    %s = tile.reshape %v : (vector<1xf32>) -> f32
    %e = tile.cast %s : (f32) -> index
    scf.for %j = %c0 to %e step %c1 {
      %w = tile.load %y[%j] {shape = array<i64: 8>} : memref<128xf32>[index] -> vector<8xf32>
      tile.store %w, %y[%c1] {shape = array<i64: 8>} : vector<8xf32>, memref<128xf32>[index]
    }""",
)
MATRIX, SUMS = "vector<16x16xf16>", "vector<16x16xf32>"
PRODUCT_OF_A_PRODUCT = kernel(
    "%x: memref<16x16xf16>, %y: memref<16x16xf32>",
    "read write",
    f"""%a = tile.load %x[%c0, %c0] {{shape = array<i64: 16, 16>}}
      : memref<16x16xf16>[index, index] -> {MATRIX}
    %none = arith.constant dense<0.0> : {SUMS}
    %p = tile.dot %a, %a, %none {{contract = [[1, 0]]}} : ({MATRIX}, {MATRIX}, {SUMS}) -> {SUMS}
    %q = tile.cast %p : ({SUMS}) -> {MATRIX}
    %t = tile.transpose %q {{perm = array<i64: 1, 0>}} : ({MATRIX}) -> {MATRIX}
    %r = tile.dot %a, %t, %none {{contract = [[1, 0]]}} : ({MATRIX}, {MATRIX}, {SUMS}) -> {SUMS}
    tile.store %r, %y[%c0, %c0] {{shape = array<i64: 16, 16>}}
      : {SUMS}, memref<16x16xf32>[index, index]""",
)
ROWS, TOTAL = "vector<16x32xf16>", "vector<32x32xf32>"


def load(name: str, memory: str, row: str) -> str:
    return f"""%{name} = tile.load %{memory}[{row}, %c0]
      {{shape = array<i64: 16, 32>, in_bounds = array<i64: 0, 1>}}
      : memref<64x32xf16>[index, index] -> {ROWS}"""


def multiply(name: str, a: str, b: str, sums: str) -> str:
    return f"""%{name} = tile.dot %{a}, %{b}, %{sums} {{contract = [[0, 0]]}}
      : ({ROWS}, {ROWS}, {TOTAL}) -> {TOTAL}"""


def sums(before: str = "", inside: str = "", of: str = "s", more: str = "", **extra: str) -> str:
    """Return a loop whose operands can be copied ahead, with more before and inside of it."""
    return kernel(
        "%x: memref<64x32xf16>, %w: memref<64x32xf16>, %y: memref<32x32xf32>"
        + extra.get("arguments", ""),
        "update read write" + extra.get("access", ""),
        f"""%none = arith.constant dense<0.0> : {TOTAL}
        {before}
        %o, %total = scf.for %i = %c0 to %c4 step %c1 iter_args(%at = %c0, %s = %none)
            -> (index, {TOTAL}) {{
          %row = arith.muli %i, %c16 : index
          {load("a", "x", extra.get("row", "%row"))}
          {load("b", "w", "%row")}
          {inside}
          {multiply("p", "a", "b", of)}
          %next = arith.addi %at, %c16 : index
          scf.yield %next, %p : index, {TOTAL}
        }}
        tile.store %total, %y[%c0, %c0] {{shape = array<i64: 32, 32>}}
          : {TOTAL}, memref<32x32xf32>[index, index]""",
        more,
    )


NESTED = f"""%s2 = scf.for %j = %c0 to %c1 step %c1 iter_args(%m = %s) -> ({TOTAL}) {{
  {load("a2", "x", "%c0")}
  %twice = arith.addf %a2, %a2 : {ROWS}
  {multiply("p2", "twice", "b", "m")}
  scf.yield %p2 : {TOTAL}
}}"""
ONES = """%one = arith.constant dense<1.0> : vector<64x32xf16>
tile.store %one, %z[%c0, %c0] {shape = array<i64: 64, 32>}
  : vector<64x32xf16>, memref<64x32xf16>[index, index]"""


def updated(load: str, store: str, size: int = 64, more: str = "", change: str = "") -> str:
    """Return a loop whose rounds load a tile of %x or %y, and store it in %y, changed."""
    tile, memory = f"vector<{size}xf32>", "memref<512xf32>"
    return kernel(
        f"%x: {memory}, %y: {memory}",
        "update update",
        f"""%c64 = arith.constant 64 : index
        %c32 = arith.constant 32 : index
        scf.for %i = %c0 to %c4 step %c1 {{
          %wide = arith.muli %i, %c64 : index
          %half = arith.muli %i, %c32 : index
          %next = arith.addi %wide, %c1 : index
          %v = tile.load {load} {{shape = array<i64: {size}>}} : {memory}[index] -> {tile}
          %w = arith.addf %v, %v : {tile}
          {change}
          tile.store {"%z" if change else "%w"}, {store} {{shape = array<i64: {size}>}}
            : {tile}, {memory}[index]
        }}""",
        more,
    )


TURNED = """%m = tile.reshape %w : (vector<64xf32>) -> vector<8x8xf32>
  %o = tile.transpose %m {perm = array<i64: 1, 0>} : (vector<8x8xf32>) -> vector<8x8xf32>
  %z = tile.reshape %o : (vector<8x8xf32>) -> vector<64xf32>"""
SAME = ", aliases = [[0, 1]]"
FREE = {
    "elements-of-its-own-in-each-round": updated("%y[%wide]", "%y[%wide]"),
    "the-same-elements-in-each-round": updated("%y[%c16]", "%y[%c16]"),
    "elements-by-two-names": updated("%x[%wide]", "%y[%wide]", more=SAME),
    "elements-of-two-memories": updated("%x[%next]", "%y[%wide]"),
}
"""Loops in which no thread reaches what another one does."""

BOUND = {
    "rounds-that-overlap": updated("%y[%half]", "%y[%half]"),
    "a-load-beyond-the-store": updated("%y[%next]", "%y[%wide]"),
    "a-load-of-another-round": updated("%y[%c16]", "%y[%wide]"),
    "elements-that-several-threads-load": updated("%y[%wide]", "%y[%wide]", 32),
    "elements-that-change-hands": updated("%y[%wide]", "%y[%wide]", change=TURNED),
    "a-load-by-another-name-beyond-the-store": updated("%x[%next]", "%y[%wide]", more=SAME),
}
"""Loops in which threads have to wait for each other."""

PROGRAMS = {
    **{name: (text, PLAIN) for name, text in (FREE | BOUND).items()},
    "one-store-in-a-loop": (STORE_IN_A_LOOP, PLAIN),
    "reads-in-a-loop": (READ_IN_A_LOOP, PLAIN),
    "steered-by-a-tile": (STEERED_BY_A_TILE, PLAIN),
    "a-product-of-a-product": (PRODUCT_OF_A_PRODUCT, SMALL),
    "copied-ahead": (sums(), COPIED),
    "a-product-inside": (sums(inside=NESTED, of="s2"), COPIED),
    "rows-that-are-carried": (sums(row="%at"), COPIED),
    "stored-under-another-name": (
        sums(
            before=ONES,
            arguments=", %z: memref<64x32xf16>",
            access=" update",
            more=", aliases = [[0, 3]]",
        ),
        COPIED,
    ),
}


def arrays(program: tile.KernelOp) -> list[np.ndarray]:
    rng, found = np.random.default_rng(0), list[np.ndarray]()
    for argument in program.memrefs:
        kind = argument.type
        dtype = {"f16": np.float16, "f32": np.float32}[str(kind.element_type)]
        found.append(rng.integers(-2, 4, kind.get_shape()).astype(dtype))
    for a, b in tile.pairs(program.aliases):
        found[b] = found[a]
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_compute_what_the_block_does(name: str) -> None:
    text, options = PROGRAMS[name]
    block, thread = lowered(text, **options)
    expected, got = arrays(block), arrays(block)
    run_kernel(block, expected, {"n": 1})
    run_simt_kernel(thread, got, {"n": 1})
    assert all(np.array_equal(a, b) for a, b in zip(expected, got, strict=True))


def test_a_loop_that_only_reads_waits_once_before_it() -> None:
    block, thread = lowered(READ_IN_A_LOOP, **PLAIN)
    (barrier,) = (op for op in thread.walk() if isinstance(op, simt.BarrierOp))
    assert barrier.parent_op() is thread
    barrier.detach()
    barrier.erase()
    with pytest.raises(LaminaError, match=r"which (thread .*|other threads) .*, and no barrier"):
        run_simt_kernel(thread, arrays(block), {"n": 1})


def barriers(program: simt.KernelOp) -> list[simt.BarrierOp]:
    return [op for op in program.body.walk() if isinstance(op, simt.BarrierOp)]


@pytest.mark.parametrize("name", FREE)
def test_threads_with_elements_of_their_own_do_not_wait(name: str) -> None:
    assert not barriers(lowered(FREE[name], **PLAIN)[1])


@pytest.mark.parametrize("name", BOUND)
def test_a_loop_without_the_barriers_that_it_needs_is_caught(name: str) -> None:
    block, thread = lowered(BOUND[name], **PLAIN)
    assert barriers(thread)
    for barrier in barriers(thread):
        barrier.detach()
    with pytest.raises(LaminaError, match=r"which (thread|other threads) .*, and no barrier"):
        run_simt_kernel(thread, arrays(block), {"n": 1})


@pytest.mark.parametrize(
    "option", [{"threads": 0}, {"subgroup": 6, "threads": 12}, {"stages": 0}, {"memory": -1}]
)
def test_options_that_no_block_has_are_refused(option: dict[str, int]) -> None:
    with pytest.raises(InputError, match="lower-tiles"):
        LowerTilesPass(**option)


def test_layouts_for_more_threads_are_refused() -> None:
    module = Parser(context(), STORE_IN_A_LOOP).parse_module()
    ChooseLayoutsPass(64).apply(context(), module)
    with pytest.raises(LoweringError, match="run choose-layouts with the same number of threads"):
        LowerTilesPass(32, 32).apply(context(), module)
