"""`nn.rank`: how many elements of its row are less than an element."""

from recipe import Tree, follow


def declare(tree: Tree) -> None:
    """What the recipe of an operation adds first."""
    tree.step = "`lamina/dialects/nn.py` `lamina/targets/reference/nn_sums.py`"
    tree.insert(
        "lamina/dialects/nn.py",
        "OPS: list[type[Operation]] = [\n",
        '''@irdl_op_definition
class RankOp(_Map):
    """`y` is how many elements of the row are less than `x`, as i32."""

    name = "nn.rank"

    def __init__(self, x: SSAValue) -> None:
        super().__init__(operands=[x], result_types=[tensor(i32, extents(x.type))])


''',
        before=True,
    )
    tree.insert("lamina/dialects/nn.py", "    PowOp,\n", "    RankOp,\n")
    tree.insert(
        "lamina/targets/reference/nn_sums.py",
        "MEANINGS: dict[type[Operation], Meaning] = {\n",
        """    nn.RankOp: lambda run, op, args: (
        (args[0][..., None, :] < args[0][..., :, None]).sum(-1).astype(np.int32),
    ),
""",
    )


def write_it(tree: Tree) -> None:
    tree.write(
        "lamina/passes/kernels/rank_kernel.py",
        '''"""Build kernels of ranks: every element of a row is compared with all of them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import product
from lamina.dialects.tensors import extents
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import chunk_of, over_row
from lamina.passes.kernels.subscripts import Span


def build_rank(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is one `nn.rank`: a program takes a row."""
    kernel = Kernel(group, name)
    emit, tiles = kernel.emit, kernel.tiles
    op = next(op for op in kernel.ops if isinstance(op, nn.RankOp))
    *outer, length = extents(op.x.type)
    at = kernel.unravel(kernel.program(0), outer) if outer else []
    lead = [Span(i, 1, inside=True) for i in at]
    width = chunk_of(length, WIDEST)

    def part(span: Span, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
        x = emit.reshape(tiles.tile_of(op.x, (*lead, span)), [width])

        def count(j: SSAValue, less: SSAValue) -> Sequence[SSAValue]:
            other = tiles.tile_of(op.x, (*lead, Span(j, 1, inside=True)))
            other = emit.broadcast(emit.reshape(other, [1]), [0], [width])
            is_less = emit.add(tile.CompareOp("lt", other, x))
            return [emit.binary(arith.AddiOp, less, emit.cast(is_less, i32, unsigned=True))]

        start = [emit.full(0, i32, [width])]
        (y,) = tiles.loop(emit.index(0), emit.extent(length), emit.index(1), start, count)
        tiles.fix(op.y, y)
        kernel.store(lead, span)
        return []

    over_row(tiles, length, width, part)
    return kernel.finish([product(tuple(outer))])
''',
    )


def name_the_builder(tree: Tree) -> None:
    table = "lamina/passes/kernels/build.py"
    tree.insert(
        table,
        "from lamina.passes.kernels.reduce_kernel import",
        "from lamina.passes.kernels.rank_kernel import build_rank\n",
        before=True,
    )
    tree.insert(table, '    "dot": build_dot,\n', '    "rank": build_rank,\n')


def name_the_anchor(tree: Tree) -> None:
    table = "lamina/passes/kernels/anchors.py"
    tree.insert(table, '    nn.ScanOp: "scan",\n', '    nn.RankOp: "rank",\n', before=True)
    tree.insert(table, '    "pool",\n', '    "rank",\n')


def look_at_it(tree: Tree) -> None:
    (tree.root / "rank.mlir").write_text(
        """func.func @forward(%x: tensor<?x?xf32, #nn.dims<["M", "N"]>> {lamina.input = "x"})
    -> (tensor<?x?xi32, #nn.dims<["M", "N"]>> {lamina.output = "y"}) {
  %r = nn.rank %x : (tensor<?x?xf32, #nn.dims<["M", "N"]>>) -> tensor<?x?xi32, #nn.dims<["M", "N"]>>
  %y = nn.neg %r : tensor<?x?xi32, #nn.dims<["M", "N"]>>
  func.return %y : tensor<?x?xi32, #nn.dims<["M", "N"]>>
}
"""
    )
    tree.run("lamina run rank.mlir --random --dump-ir stages")
    made = sorted((tree.root / "stages").glob("*-lower-groups.mlir"))
    assert "tile.kernel @rank_neg" in made[0].read_text()
    assert (tree.root / "stages" / "rank_neg.ll").exists()


def add_checks(tree: Tree) -> None:
    suite = "lamina/testing/suites/fusions.py"
    tree.insert(
        suite,
        "def _fused(sheet: Sheet, name: str",
        """def _ranks(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["M", "N"], normal)
    y = sheet.compute("rank", nn.RankOp(x))
    sheet.compute("doubled", nn.AddOp(y, y))
    z = sheet.add(nn.RankOp(sheet.add(nn.NegOp(x))))
    sheet.compute("end", nn.NegOp(z))


""",
        before=True,
    )
    tree.insert(
        suite,
        '    yield Case("gated", _gated, SIZES)\n',
        '    yield Case("ranks", _ranks)\n',
    )
    shown = tree.run("python -m lamina.testing cpu fusions")
    assert "nn.rank                     1 of 1" in shown
    assert "nn.rank runs by its NumPy meaning" not in shown


def test_a_kernel_builder_is_added_by_the_recipe(tree: Tree) -> None:
    declare(tree)
    steps = {1: write_it, 2: name_the_builder, 3: name_the_anchor, 5: look_at_it, 6: add_checks}
    follow("a kernel builder", tree, steps, without={4})
