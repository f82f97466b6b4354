"""An artifact to something that can be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

from lamina.errors import FormatError, TargetUnavailable
from lamina.targets.base import Artifact
from lamina.targets.cpu.executable import CpuExecutable, HostRun
from lamina.targets.cpu.features import LEVELS
from lamina.targets.cpu.jit import load_objects
from lamina.targets.cpu.runtime import runtime_under_way
from lamina.targets.cpu.sections import CODE
from lamina.targets.cpu.step import Step
from lamina.targets.memory import Array, element_dtype
from lamina.targets.packing.packed_weights import packed_weights
from lamina.targets.plans.host_calls import HostFunction, host_functions
from lamina.targets.plans.loading import check_sections
from lamina.targets.plans.plan_tables import HostBuffer, HostCall, Plan
from lamina.targets.plans.sections import HOSTS, PLAN, PREPARE

_INTEGERS: Final[Mapping[str, str]] = {
    name: code.upper() if name[0] == "u" else code
    for width, code in (("8", "b"), ("16", "h"), ("32", "i"), ("64", "q"))
    for name in (f"i{width}", f"ui{width}")
} | {"i1": "?"}
"""How `struct` spells each element type that numbers of extents can have."""


def load_artifact(
    artifact: Artifact, weights: Mapping[str, Any], threads: Callable[[], int]
) -> CpuExecutable:
    """Load the code and prepare the weights; `threads` tells how many may run a step.

    Raises TargetUnavailable on a machine that lacks what the code needs, FormatError for an
    artifact that is not whole, and InputError for a weight that is missing.
    """
    _check_host(artifact)
    sections = artifact.sections
    check_sections(artifact, {PLAN, PREPARE, HOSTS})
    plan = Plan.from_bytes(sections[PLAN])
    check_sections(artifact, {f"{CODE}{name}" for name in plan.kernels})
    loaded = load_objects([sections[f"{CODE}{name}"] for name in plan.kernels], plan.kernels)
    kernels = [loaded.addresses[name] for name in plan.kernels]
    with runtime_under_way():
        packed = packed_weights(plan.packed, sections[PREPARE], weights)
    hosts = _hosts(plan, sections[HOSTS])
    return CpuExecutable(
        artifact.signature,
        plan,
        kernels,
        packed,
        threads,
        hosts=hosts,
        keep=loaded,
        level=artifact.facts["level"],
    )


def _check_host(artifact: Artifact) -> None:
    """Refuse code for another processor, or for one that can do more."""
    from lamina.targets.cpu.binding import llvm

    facts = artifact.facts
    if missing := {"triple", "level", "flags"} - facts.keys():
        raise FormatError(f"the artifact does not say its {min(missing)}")
    architecture, here = (t.split("-")[0] for t in (facts["triple"], llvm.get_process_triple()))
    if architecture != here:
        raise TargetUnavailable(f"the artifact is for {architecture}, this machine is {here}")
    level = LEVELS.get(facts["level"])
    needs = set(level.needs if level else ())
    needs |= {flag[1:] for flag in str(facts["flags"]).split(",") if flag.startswith("+")}
    have = {name for name, on in llvm.get_host_cpu_features().items() if on}
    if lacking := sorted(needs - have):
        raise TargetUnavailable(
            f"the artifact is for a CPU with {', '.join(lacking)}, which this machine lacks"
        )


def _hosts(plan: Plan, text: bytes) -> list[HostRun]:
    functions = host_functions(plan, text)
    return [_host(*each) for each in zip(plan.hosts, functions, strict=True)]


def _host(call: HostCall, function: HostFunction) -> HostRun:
    def run(step: Step) -> None:
        symbols = step.known()
        results = function(symbols, [_array(step, buffer) for buffer in call.buffers])
        if call.binds:
            step.received = results
            shapes = [(value, results[i].shape[axis]) for value, i, axis in call.binds]
            step.grow(shapes, call)

    wanted = 1 + max((i for *_, i in call.binds), default=-1)

    def bind(step: Step) -> None:
        buffer = call.buffers[0]
        numbers = step.numbers(buffer.base, buffer.offset, _INTEGERS[buffer.dtype], wanted)
        step.grow([(value, numbers[i]) for value, _, i in call.binds], call)

    def receive(step: Step) -> None:
        for buffer, result in zip(call.buffers, step.received, strict=True):
            _array(step, buffer)[...] = result
        step.received = ()

    return {"run": run, "bind": bind, "receive": receive}[call.kind]


def _array(step: Step, buffer: HostBuffer) -> Array:
    shape = step.extents(buffer.dims)
    dtype = element_dtype(buffer.dtype)
    memory = step.memory(buffer.base, buffer.offset, prod(shape) * dtype.itemsize)
    return memory.view(dtype).reshape(shape)
