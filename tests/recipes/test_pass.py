"""`fold-negations`: what is negated twice is as it was."""

from recipe import Tree, follow


def write_it(tree: Tree) -> None:
    tree.write(
        "lamina/passes/fold_negations.py",
        '''"""Take away pairs of negations."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from lamina.dialects import nn


class NegOfNeg(RewritePattern):
    """neg(neg(x)) -> x"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.NegOp, rewriter: PatternRewriter, /) -> None:
        """Replace the outer negation."""
        if isinstance(op.x.owner, nn.NegOp):
            rewriter.replace(op, [], [op.x.owner.x])


@dataclass(frozen=True)
class FoldNegationsPass(ModulePass):
    """No operation negates what another one has negated."""

    name = "fold-negations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        PatternRewriteWalker(NegOfNeg()).rewrite_module(op)
''',
    )


def register(tree: Tree) -> None:
    tree.insert("lamina/plugins/builtin.py", '    "fold-duplicates",\n', '    "fold-negations",\n')
    shown = tree.run("lamina passes fold-negations")
    assert "fold-negations, by builtin, in " in shown
    assert "No operation negates what another one has negated." in shown


def show_its_ir(tree: Tree) -> None:
    tree.write(
        "tests/ir/fold_negations.mlir",
        """// RUN: lamina opt %s -p fold-negations | filecheck %s

// CHECK-LABEL: func.func @forward
// CHECK:         func.return %x : tensor<4xf32>

func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.neg %x : tensor<4xf32>
  %b = nn.neg %a : tensor<4xf32>
  func.return %b : tensor<4xf32>
}
""",
    )
    tree.run("python -m pytest tests/ir/fold_negations.mlir")


def see_that_it_changes_no_result(tree: Tree) -> None:
    suite = "lamina/testing/suites/fusions.py"
    tree.insert(
        suite,
        '    yield Case("gated", _gated, SIZES)\n',
        '    yield Case("negations", _negations)\n',
    )
    tree.insert(
        suite,
        "def _fused(sheet: Sheet, name: str",
        """def _negations(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N"], edges)
    y = sheet.add(nn.NegOp(sheet.add(nn.NegOp(x))))
    sheet.compute("exp", nn.ExpOp(y))


""",
        before=True,
    )
    shown = tree.run("python -m lamina.testing fold-negations fusions")
    assert "1 checks in 1 cases, 5 comparisons: 1 passed, 0 failed, 0 refused" in shown


def say_where_it_runs(tree: Tree) -> None:
    lists = "lamina/passes/pipelines.py"
    tree.insert(
        lists,
        "from lamina.passes.fuse_attention import",
        "from lamina.passes.fold_negations import FoldNegationsPass\n",
        before=True,
    )
    tree.insert(lists, "    FuseActivationsPass(),\n", "    FoldNegationsPass(),\n", before=True)
    shown = tree.run("lamina targets cpu")
    assert "  fold-duplicates\n  fold-negations\n  fuse-activations" in shown


def write_pages(tree: Tree) -> None:
    tree.run("make docs")
    tree.run("python -m pytest tests/unit/test_names.py")


def test_a_pass_is_added_by_the_recipe(tree: Tree) -> None:
    steps = (
        *(write_it, register, show_its_ir, see_that_it_changes_no_result),
        *(say_where_it_runs, write_pages),
    )
    follow("a pass", tree, dict(enumerate(steps, 1)))
