"""`nn.cube`, once as a composite and once as a primitive."""

from recipe import Tree, follow


def declare(tree: Tree) -> None:
    nn = "lamina/dialects/nn.py"
    tree.insert(
        nn,
        "@irdl_op_definition\nclass AddOp(",
        '@irdl_op_definition\nclass CubeOp(_Unary):\n    """`y = x^3`."""\n\n    name = "nn.cube"\n\n\n',
        before=True,
    )
    tree.insert(nn, "    CosOp,\n", "    CubeOp,\n")


def say_in_numpy(tree: Tree) -> None:
    tree.insert(
        "lamina/targets/reference/nn_elementwise.py",
        "    nn.GeluOp: _gelu,\n",
        "    nn.CubeOp: lambda run, op, args: (args[0] * args[0] * args[0],),\n",
    )
    shown = tree.run("lamina ops nn.cube")
    assert "`y = x^3`." in shown
    assert "numpy: lamina.targets.reference.nn_elementwise:" in shown


def decompose(tree: Tree) -> None:
    tree.write(
        "lamina/passes/composites/powers.py",
        '''"""Powers in primitives."""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lamina.dialects import nn
from lamina.passes.composites.spelling import Spelling


class CubeToProducts(RewritePattern):
    """cube(x) -> x * x * x"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.CubeOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        spell.finish(spell.add(nn.MulOp(spell.add(nn.MulOp(op.x, op.x)), op.x)))
''',
    )
    table = "lamina/passes/decompose_composites.py"
    tree.insert(
        table,
        "from lamina.passes.composites.quantisation import (\n",
        "from lamina.passes.composites.powers import CubeToProducts\n",
        before=True,
    )
    tree.insert(
        table, "    nn.AttentionOp: AttentionToSoftmax,\n", "    nn.CubeOp: CubeToProducts,\n"
    )


def compute_in_kernels(tree: Tree) -> None:
    tree.insert(
        "lamina/passes/kernels/maps.py",
        "@rule(nn.CompareOp)\n",
        """@rule(nn.CubeOp)
def _cube(tiles: Tiles, op: nn.CubeOp, index: Index, _: SSAValue) -> SSAValue:
    x = tiles.tile_of(op.x, index)
    return tiles.emit.binary(arith.MulfOp, tiles.emit.binary(arith.MulfOp, x, x), x)


""",
        before=True,
    )


def add_checks(tree: Tree) -> None:
    suite = "lamina/testing/suites/fusions.py"
    tree.insert(
        suite, '    yield Case("gated", _gated, SIZES)\n', '    yield Case("cubes", _cubes)\n'
    )
    tree.insert(
        suite,
        "def _fused(sheet: Sheet, name: str",
        """def _cubes(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N"], edges)
    y = sheet.compute("cube", nn.CubeOp(x), rtol=0.0)
    sheet.compute("after", nn.NegOp(y), rtol=0.0)


""",
        before=True,
    )
    shown = tree.run("python -m lamina.testing cpu fusions")
    assert "nn.cube                     1 of 1" in shown
    assert "0 failed, 0 refused" in shown
    assert "cube runs by its NumPy meaning" not in shown


def give_it_a_row(tree: Tree) -> None:
    tree.insert(
        "docs/numerics.md",
        "| sin, cos | ",
        "| cube | two products, each rounded once | exact | exact | `cubes/cube` |\n",
        before=True,
    )
    tree.run("python -m pytest tests/conformance/test_numerics.py -k row")


def write_pages(tree: Tree) -> None:
    tree.run("make docs")
    assert "### `nn.cube`" in (tree.root / "docs" / "ops.md").read_text(encoding="utf-8")


def test_a_composite_is_added_by_the_recipe(tree: Tree) -> None:
    steps = {1: declare, 2: say_in_numpy, 3: decompose}
    steps |= {5: add_checks, 6: give_it_a_row, 7: write_pages}
    follow("an operation", tree, steps, without={4})


def test_a_primitive_is_added_by_the_recipe(tree: Tree) -> None:
    steps = {1: declare, 2: say_in_numpy, 4: compute_in_kernels}
    steps |= {5: add_checks, 6: give_it_a_row, 7: write_pages}
    follow("an operation", tree, steps, without={3})
