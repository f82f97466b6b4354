"""C as a target."""

import ctypes
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from lamina.dialects.plan import PLAN
from lamina.dialects.tile import KernelOp
from lamina.errors import LoweringError, TargetUnavailable
from lamina.passes.choose_cache_layout import ChooseCacheLayoutPass
from lamina.passes.pipelines import FUSION, GROUPING, LOWERING, assemble
from lamina.passes.schedule_groups import ScheduleGroupsPass
from lamina.targets.base import Artifact, Executable, Target
from lamina.targets.reference.walker import outline_of, walk
from lamina.targets.signature import signature_of
from lamina_c.printer import RULES, Printer

# Integers wrap, memory has no type, and only what says `fma` is rounded once.
FLAGS = "-O2 -march=native -fwrapv -fno-strict-aliasing -ffp-contract=off -shared -fPIC".split()


@dataclass(frozen=True)
class CTarget(Target):
    """Kernels as C functions, which `compiler` compiles at load; the plan is walked in Python."""

    name: ClassVar[str] = "c"
    compiler: str = field(default="cc", metadata={"spec": False})

    @property
    def accepts(self) -> frozenset[str]:
        """What the printer has rules for, and the operations of a plan."""
        known = (*RULES, KernelOp, *PLAN.operations)
        return frozenset({"builtin.module", "func.func", *(op.name for op in known)})

    def passes(self) -> tuple[ModulePass, ...]:
        """Return the portable passes."""
        inserted = {"fusion": [ChooseCacheLayoutPass(tile=16)], "groups": [ScheduleGroupsPass()]}
        return assemble((*FUSION, *GROUPING, *LOWERING), inserted)

    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        """Print the kernels, called by their number, and the plan."""
        printer, kernels = Printer(), [op for op in module.ops if isinstance(op, KernelOp)]
        for n, kernel in enumerate(kernels):
            printer.kernel(kernel, f"k{n}")
        facts = {"kernels": len(kernels), "nodes": printer.nodes}
        sections = {"code": "\n".join(printer.lines).encode(), "plan": outline_of(module)}
        return Artifact(self.name, signature_of(module), sections, facts)

    def listings(self, ctx: Context, module: ModuleOp, artifact: Artifact) -> Mapping[str, str]:
        """Return the C."""
        return {"kernels.c": artifact.sections["code"].decode()}

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        """Compile the C and prepare the weights; TargetUnavailable without a compiler."""
        code, facts = compiled(artifact.sections["code"], self.compiler), artifact.facts
        kernels = [code[f"k{n}"] for n in range(facts["kernels"])]
        return walk(artifact.sections["plan"], weights, kernels, facts["nodes"])


def compiled(code: bytes, compiler: str) -> ctypes.CDLL:
    """Return the functions of C text; TargetUnavailable says why it cannot be compiled."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/kernels.so"
        command = [compiler, *FLAGS, "-x", "c", "-", "-o", library, "-lm"]
        try:
            done = subprocess.run(command, input=code, check=False, capture_output=True)
        except OSError as error:
            raise TargetUnavailable(f"c: there is no C compiler {compiler!r}: {error}") from None
        if done.returncode:
            raise LoweringError(f"c: {compiler} refuses the kernels: {done.stderr.decode()[:500]}")
        return ctypes.CDLL(library)
