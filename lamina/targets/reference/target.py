"""The reference as a target: it emits a module's text and interprets it, at any level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import lamina
from lamina.dialects.text import parse_module
from lamina.targets.base import Artifact, Executable, Target
from lamina.targets.known import KNOWN
from lamina.targets.reference.executable import ReferenceExecutable
from lamina.targets.signature import signature_of

_STRUCTURE = frozenset(
    {
        "builtin.module",
        "func.func",
        "func.return",
        "nn.group",
        "nn.yield",
        "plan.return",
        "scf.condition",
        "scf.yield",
        "simt.kernel",
        "tile.kernel",
        "tile.return",
    }
)
"""Operations that hold others or end a region, and so need no meaning."""


@dataclass(frozen=True)
class ReferenceTarget(Target):
    """Interpret a module with NumPy, whatever its level: slow, and what the others must equal."""

    name: ClassVar[str] = "reference"

    @property
    def accepts(self) -> frozenset[str]:
        """Every operation that has a meaning."""
        return _STRUCTURE | {op.name for op in KNOWN.meanings()}

    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        """Return the module's own text."""
        sections = {"module": str(module).encode()}
        facts = {"lamina": lamina.__version__}
        return Artifact(self.name, signature_of(module), sections, facts)

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        """Parse the text back, and compute what depends on weights alone."""
        text = artifact.sections["module"].decode()
        module = parse_module(KNOWN.context(), text, "the artifact's module")
        return ReferenceExecutable(module, weights)
