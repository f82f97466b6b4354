import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from lamina.testing.kernels import context

VALUES = """
  %c0 = arith.constant 0 : index
  %v = arith.constant dense<0.0> : vector<4x8xf32>
  %w = arith.constant dense<0.0> : vector<8x16xf32>
  %b = arith.constant dense<1> : vector<4x8xi8>
  %m = arith.constant dense<1> : vector<4x8xi1>
  %i = tile.iota : vector<4xindex>
  %s = arith.constant 0.0 : f32
"""


def kernel(
    body: str,
    symbols: str = '"n"',
    grid: str = '"n"',
    access: str = '"read"',
    args: str = "%x: memref<?x?xf32>, %n: index",
) -> str:
    return f"""tile.kernel @k attributes {{symbols = [{symbols}], grid = [{grid}], access = [{access}]}} {{
^bb0({args}):
{VALUES}
{body}
tile.return
}}"""


def worked(counts: str) -> str:
    return kernel("").replace(
        'access = ["read"]', f'access = ["read"], work = #tile.work<{{{counts}}}>'
    )


def verify(text: str) -> None:
    Parser(context(), text).parse_module().verify()


LOAD = "memref<?x?xf32> [index, index] -> vector<4x8xf32>"
REFUSED = {
    "a tile of another rank": (
        f"%y = tile.load %x[%c0, %c0] {{shape = array<i64: 4>}} : {LOAD}",
        "tile shape .* for a memref of rank 2",
    ),
    "a subscript too few": (
        "%y = tile.load %x[%c0] {shape = array<i64: 4, 8>} : memref<?x?xf32> [index] -> vector<4x8xf32>",
        "1 subscripts for a memref of rank 2",
    ),
    "an index vector of another length": (
        "%y = tile.load %x[%i, %c0] {shape = array<i64: 2, 8>} : memref<?x?xf32> [vector<4xindex>, index] -> vector<2x8xf32>",
        "expected index or vector<2xindex>",
    ),
    "zipped dimensions with scalars": (
        f"%y = tile.load %x[%c0, %c0] {{shape = array<i64: 4, 8>, zip = array<i64: 0, 1>}} : {LOAD}",
        "zip names 0, not a vector",
    ),
    "a zipped dimension with a size": (
        "%y = tile.load %x[%i, %i] {shape = array<i64: 4, 4>, zip = array<i64: 0, 1>} : memref<?x?xf32> [vector<4xindex>, vector<4xindex>] -> vector<4x4xf32>",
        "zip: dimension 1 must have size 1",
    ),
    "limits that do not fit their dimensions": (
        f"%y = tile.load %x[%c0, %c0] limit [%n] {{shape = array<i64: 4, 8>}} : {LOAD}",
        "1 limits for dimensions all",
    ),
    "a dimension that there is not": (
        f"%y = tile.load %x[%c0, %c0] {{shape = array<i64: 4, 8>, in_bounds = array<i64: 2>}} : {LOAD}",
        "no such dimension",
    ),
    "a load into another element type": (
        "%y = tile.load %x[%c0, %c0] {shape = array<i64: 4, 8>} : memref<?x?xf32> [index, index] -> vector<4x8xi32>",
        "tile of i32 in a memref of f32",
    ),
    "a load of another size": (
        "%y = tile.load %x[%c0, %c0] {shape = array<i64: 4, 8>} : memref<?x?xf32> [index, index] -> vector<4x4xf32>",
        "16 elements, the tile .* has 32",
    ),
    "a store of another size": (
        "tile.store %v, %x[%c0, %c0] {shape = array<i64: 4, 4>} : vector<4x8xf32>, memref<?x?xf32> [index, index]",
        "32 elements, the tile .* has 16",
    ),
    "a prefetch with too few subscripts": (
        "tile.prefetch %x[%c0] {shape = array<i64: 4, 4>} : memref<?x?xf32> [index]",
        "1 subscripts for a memref of rank 2",
    ),
    "a dot of unequal extents": (
        "%y = tile.dot %v, %w, %v {contract = [[0, 0]]} : (vector<4x8xf32>, vector<8x16xf32>, vector<4x8xf32>) -> vector<4x8xf32>",
        "extents differ",
    ),
    "a dot into an accumulator of another shape": (
        "%y = tile.dot %v, %w, %v {contract = [[1, 0]]} : (vector<4x8xf32>, vector<8x16xf32>, vector<4x8xf32>) -> vector<4x8xf32>",
        "accumulator vector<4x8xf32>, expected .4, 16",
    ),
    "an integer dot that sums in another type": (
        "%y = tile.dot %b, %b, %z {contract = [[1, 1]]} : (vector<4x8xi8>, vector<4x8xi8>, vector<4x4xi8>) -> vector<4x4xi8>",
        "an integer dot accumulates in i32",
    ),
    "a dot of numbers wider than a byte": (
        "%y = tile.dot %q, %q, %q {contract = [[1, 1]]} : (vector<4x4xi32>, vector<4x4xi32>, vector<4x4xi32>) -> vector<4x4xi32>",
        "dot of i32: floats or i8",
    ),
    "an unknown reduction": (
        '%y = tile.reduce %v {kind = "mean", dims = array<i64: 1>} : (vector<4x8xf32>) -> vector<4xf32>',
        "reduce 'mean'",
    ),
    "a reduction over no dimension": (
        '%y = tile.reduce %v {kind = "add", dims = array<i64>} : (vector<4x8xf32>) -> vector<4x8xf32>',
        "dims .* of",
    ),
    "a reduction to another shape": (
        '%y = tile.reduce %v {kind = "add", dims = array<i64: 1>} : (vector<4x8xf32>) -> vector<8xf32>',
        "result is vector<8xf32>",
    ),
    "an argmax without positions": (
        '%y = tile.reduce %v {kind = "argmax", dims = array<i64: 1>} : (vector<4x8xf32>) -> vector<4xf32>',
        "argmax and its results disagree",
    ),
    "an argmax over two dimensions": (
        '%y, %p = tile.reduce %v {kind = "argmax", dims = array<i64: 0, 1>} : (vector<4x8xf32>) -> (f32, i32)',
        "argmax reduces one dimension",
    ),
    "a scan that is no running reduction": (
        '%y = tile.scan %v {kind = "argmax", dim = 0 : i64} : (vector<4x8xf32>) -> vector<4x8xf32>',
        "scan 'argmax'",
    ),
    "a cast to another shape": (
        "%y = tile.cast %v : (vector<4x8xf32>) -> vector<8x4xi32>",
        "a cast keeps its shape",
    ),
    "a broadcast to an extent that does not fit": (
        "%y = tile.broadcast %v {dims = array<i64: 0, 1>} : (vector<4x8xf32>) -> vector<4x16xf32>",
        "does not broadcast",
    ),
    "a broadcast over dimensions out of order": (
        "%y = tile.broadcast %v {dims = array<i64: 1, 0>} : (vector<4x8xf32>) -> vector<8x4xf32>",
        "dims .* for",
    ),
    "a transposition by no permutation": (
        "%y = tile.transpose %v {perm = array<i64: 0, 0>} : (vector<4x8xf32>) -> vector<4x4xf32>",
        "perm .* of rank 2",
    ),
    "a reshape that loses elements": (
        "%y = tile.reshape %v : (vector<4x8xf32>) -> vector<4x4xf32>",
        "reshape .* to",
    ),
    "a slice outside": (
        "%y = tile.slice %v {start = array<i64: 1, 0>} : (vector<4x8xf32>) -> vector<4x8xf32>",
        "slice .* at",
    ),
    "a splat of another element type": (
        "%y = tile.splat %s : (f32) -> vector<4xi32>",
        "splat changes the element type",
    ),
    "a join that does not add up": (
        "%y = tile.join %v, %v {dim = 0 : i64} : (vector<4x8xf32>, vector<4x8xf32>) -> vector<9x8xf32>",
        "joined extent is 8, the result has 9",
    ),
    "a join of other extents": (
        "%y = tile.join %v, %w {dim = 1 : i64} : (vector<4x8xf32>, vector<8x16xf32>) -> vector<4x24xf32>",
        "join",
    ),
    "an iota of two dimensions": (
        "%y = tile.iota : vector<4x8xi32>",
        "iota has one dimension",
    ),
    "an unknown comparison": (
        '%y = tile.compare %v, %v {kind = "slt"} : (vector<4x8xf32>, vector<4x8xf32>) -> vector<4x8xi1>',
        "compare 'slt'",
    ),
    "a comparison of two types": (
        '%y = tile.compare %v, %b {kind = "lt"} : (vector<4x8xf32>, vector<4x8xi8>) -> vector<4x8xi1>',
        "compare vector<4x8xf32> with vector<4x8xi8>",
    ),
    "a mask of another shape": (
        "%y = tile.select %m, %w, %w : (vector<4x8xi1>, vector<8x16xf32>, vector<8x16xf32>) -> vector<8x16xf32>",
        "mask vector<4x8xi1>",
    ),
    "a choice between two types": (
        "%y = tile.select %m, %v, %b : (vector<4x8xi1>, vector<4x8xf32>, vector<4x8xi8>) -> vector<4x8xf32>",
        "select of differing types",
    ),
    "scratch of unknown size": (
        "%y = tile.scratch : memref<?xf32>",
        "scratch has a static size",
    ),
    "a check of numbers": (
        'tile.check %v {node = "here"} : vector<4x8xf32>',
        "check takes i1",
    ),
}
EXTRA = """
  %z = arith.constant dense<0> : vector<4x4xi8>
  %q = arith.constant dense<0> : vector<4x4xi32>
"""


@pytest.mark.parametrize(("body", "message"), REFUSED.values(), ids=REFUSED)
def test_an_operation_that_does_not_fit_is_refused(body: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        verify(kernel(EXTRA + body))


KERNELS = {
    "too few arguments": (kernel("", args="%x: memref<?x?xf32>"), "1 arguments, 1 accesses"),
    "a symbol before the memrefs": (
        kernel("", args="%n: index, %x: memref<?x?xf32>"),
        "kernel arguments are memrefs, then one index a symbol",
    ),
    "an unknown access": (kernel("", access='"peek"'), "access is one of"),
    "an unknown symbol": (kernel("", grid='"m"'), r"grid names \['m'\]"),
    "a grid that is no extent": (kernel("", grid='"n +"'), "extent 'n \\+' ends too early"),
    "work over an unknown symbol": (worked('bytes = "4*m"'), r"work names \['m'\]"),
    "work that is no extent": (worked('bytes = "n +"'), "extent 'n \\+' ends too early"),
    "work that is a number": (worked("float = 4 : i64"), "float is 4 : i64, expected a string"),
    "work of another kind": (worked('bites = "4"'), r"work has \['bites'\], expected some of"),
    "four extents": (kernel("", grid='"n", "n", "n", "n"'), "one to three extents"),
}


@pytest.mark.parametrize(("text", "message"), KERNELS.values(), ids=KERNELS)
def test_a_kernel_that_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        verify(text)


def test_a_kernel_whose_parts_fit_is_accepted() -> None:
    verify(kernel(f"%y = tile.load %x[%c0, %c0] {{shape = array<i64: 4, 8>}} : {LOAD}"))
