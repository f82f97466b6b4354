"""What targets of devices do alike to make an artifact of a planned module."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

import lamina
from lamina.dialects.dims import Dim
from lamina.dialects.plan import BufferType, CallOp, CopyOp, is_host
from lamina.dialects.simt import KernelOp
from lamina.errors import FormatError, LoweringError
from lamina.targets.base import Artifact
from lamina.targets.module_text import part_of
from lamina.targets.plans.bases import packed_bases
from lamina.targets.plans.plan_tables import HOST, Plan
from lamina.targets.plans.sections import HOSTS, PLAN, PREPARE
from lamina.targets.signature import signature_of

K = TypeVar("K")
"""A kernel as a target's section keeps it: a dataclass of numbers, texts and tuples of them."""


def artifact_of(
    name: str,
    module: ModuleOp,
    plan: Plan,
    sections: Mapping[str, bytes],
    facts: Mapping[str, Any],
) -> Artifact:
    """Return the artifact of a module whose kernels are in `sections`.

    Raises LoweringError for a host call that is given memory of the device.
    """
    _check_hosts(plan)
    every = {
        **sections,
        PLAN: plan.to_bytes(),
        PREPARE: part_of(module, frozenset({PREPARE})),
        HOSTS: part_of(module, frozenset(host.name for host in plan.hosts)),
    }
    known = {
        "lamina": lamina.__version__,
        "kernels": len(plan.kernels),
        "launches": plan.launches,
        "host_calls": [host.name for host in plan.hosts],
        "copies": [{"to": to, "bytes": str(size)} for to, size in copies_of(module)],
    }
    return Artifact(name, signature_of(module), every, {**known, **facts})


def copies_of(module: ModuleOp) -> list[tuple[str, Dim]]:
    """Return for each copy of a planned module where it goes, `host` or `device`, and its bytes."""
    return [
        ("host" if is_host(op.y) else "device", cast("BufferType", op.x.type).bytes)
        for op in module.walk()
        if isinstance(op, CopyOp)
    ]


def _check_hosts(plan: Plan) -> None:
    known = {HOST, *packed_bases(plan)}
    for host in plan.hosts:
        if any(buffer.base not in known for buffer in host.buffers):
            raise LoweringError(
                f"@{host.name} runs on the host and is given memory of the device: plan-copies "
                "comes before plan-memory"
            )


def emit_each(module: ModuleOp, emit: Callable[[KernelOp], K]) -> list[K]:
    """Return what `emit` makes of each kernel; LoweringError names the node of one it cannot."""
    made: list[K] = []
    for kernel in module.ops:
        if not isinstance(kernel, KernelOp):
            continue
        try:
            made.append(emit(kernel))
        except LoweringError as error:
            raise LoweringError(f"{error}{_origin(module, kernel)}") from None
    return made


def kernels_to_bytes(kernels: Sequence[object]) -> bytes:
    """Return kernels, which are dataclasses, as the text of a section."""
    return json.dumps([vars(kernel) for kernel in kernels]).encode()


def kernels_from_bytes(section: bytes, type: Callable[..., K]) -> list[K]:
    """Return the kernels of a section; FormatError if it has none."""
    try:
        entries = cast("list[dict[str, Any]]", json.loads(section))
        return [type(**{key: _tuples(value) for key, value in e.items()}) for e in entries]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the artifact's kernels cannot be read: {error!r}") from None


def _tuples(value: Any) -> Any:
    """Return lists, which JSON makes of tuples, as those again."""
    return tuple(map(_tuples, cast("list[Any]", value))) if isinstance(value, list) else value


def _origin(module: ModuleOp, kernel: KernelOp) -> str:
    for op in module.walk():
        if isinstance(op, CallOp) and op.callee.string_value() == kernel.sym_name.data:
            launch = op.parent_op()
            names = launch.attributes.get("lamina.src") if launch is not None else None
            if isinstance(names, ArrayAttr):
                listed = ", ".join(n.data for n in cast("ArrayAttr[StringAttr]", names))
                return f" (from node {listed})"
    return ""
