"""`plain`: kernels as the CPU has them, run by NumPy, sums of floats by a rule of its own."""

from recipe import Tree, follow


def write_rules(tree: Tree) -> None:
    tree.write("lamina/targets/plain/__init__.py", '"""Kernels, run one operation at a time."""\n')
    tree.write(
        "lamina/targets/plain/rules.py",
        '''"""What each operation does."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation

from lamina.targets.reference import arith as numbers
from lamina.targets.reference import math, plan, scf, tile
from lamina.targets.reference.interpreter import Meaning

RULES: dict[type[Operation], Meaning] = {
    **numbers.MEANINGS,
    **math.MEANINGS,
    **plan.MEANINGS,
    **scf.MEANINGS,
    **tile.MEANINGS,
    arith.AddfOp: lambda run, op, args: (args[0] + args[1],),
}
''',
    )


def write_it(tree: Tree) -> None:
    tree.write(
        "lamina/targets/plain/target.py",
        '''"""Kernels as a target that runs their text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lamina.targets.base import Artifact, Executable, Target

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


@dataclass(frozen=True)
class PlainTarget(Target):
    """Kernels in NumPy; `rows` is how many rows a tile of products has."""

    name: ClassVar[str] = "plain"
    rows: int = 4

    @property
    def accepts(self) -> frozenset[str]:
        """What the rules name, and what holds other operations."""
        from lamina.targets.plain.rules import RULES

        held = ("builtin.module", "func.func", "plan.return", "tile.kernel", "tile.return")
        return frozenset({*held, "scf.yield", *(op.name for op in RULES)})

    def passes(self) -> tuple[ModulePass, ...]:
        """Return the portable passes."""
        from lamina.passes.choose_cache_layout import ChooseCacheLayoutPass
        from lamina.passes.pipelines import FUSION, GROUPING, LOWERING, assemble
        from lamina.passes.schedule_groups import ScheduleGroupsPass

        groups = [ScheduleGroupsPass(rows=self.rows)]
        inserted = {"fusion": [ChooseCacheLayoutPass(tile=16)], "groups": groups}
        return assemble((*FUSION, *GROUPING, *LOWERING), inserted)

    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        """Return the text."""
        from lamina.targets.signature import signature_of

        return Artifact(self.name, signature_of(module), {"text": str(module).encode()}, {})

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        """Read the text."""
        from lamina.dialects.text import parse_module
        from lamina.targets.known import KNOWN
        from lamina.targets.plain.rules import RULES
        from lamina.targets.reference.executable import ReferenceExecutable

        text = artifact.sections["text"].decode()
        return ReferenceExecutable(parse_module(KNOWN.context(), text, "plain"), weights, RULES)
''',
    )


def register(tree: Tree) -> None:
    tree.insert(
        "lamina/plugins/builtin.py",
        '    "reference": "lamina.targets.reference.target:ReferenceTarget",\n',
        '    "plain": "lamina.targets.plain.target:PlainTarget",\n',
        before=True,
    )
    shown = tree.run("lamina targets plain")
    assert "`rows` is how many rows a tile of products has." in shown
    assert "  lower-groups\n" in shown


def run_the_kit(tree: Tree) -> None:
    shown = tree.run("python -m lamina.testing plain aliases")
    assert "0 failed, 0 refused, 0 warnings" in shown


def describe(tree: Tree) -> None:
    tree.write("docs/plain.md", "# The target `plain`\n\nIt is slow, and exact.\n")


def test_a_target_is_added_by_the_recipe(tree: Tree) -> None:
    steps = (write_rules, write_it, register, run_the_kit, describe)
    follow("a target", tree, dict(enumerate(steps, 1)))
