"""From an artifact of a plan to what every executable on a device is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from lamina.errors import FormatError
from lamina.targets.base import Array, Artifact, Signature
from lamina.targets.packing.packed_weights import packed_weights
from lamina.targets.plans.host_calls import HostFunction, host_functions
from lamina.targets.plans.loading import check_sections
from lamina.targets.plans.plan_tables import Plan
from lamina.targets.plans.sections import HOSTS, PLAN, PREPARE


class Named(Protocol):
    """A kernel as an artifact has it."""

    @property
    def name(self) -> str:
        """What the plan calls it."""
        ...


N = TypeVar("N", bound=Named)


@dataclass(frozen=True)
class LoadedPlan:
    """A plan with the weights that it names, packed, and what it runs on the host."""

    signature: Signature
    plan: Plan
    packed: Sequence[Array]
    hosts: Sequence[HostFunction] = ()


def read_plan(artifact: Artifact, sections: Set[str]) -> Plan:
    """Return the plan of an artifact; FormatError if it lacks that, or one of these sections."""
    check_sections(artifact, {*sections, PLAN, PREPARE, HOSTS})
    return Plan.from_bytes(artifact.sections[PLAN])


def in_order(plan: Plan, kernels: Iterable[N]) -> list[N]:
    """Return the kernels of a plan by their numbers; FormatError names one that is not there."""
    known = {kernel.name: kernel for kernel in kernels}
    if missing := [name for name in plan.kernels if name not in known]:
        raise FormatError(f"the artifact has no kernel {missing[0]!r}")
    return [known[name] for name in plan.kernels]


def load_plan(artifact: Artifact, plan: Plan, weights: Mapping[str, Any]) -> LoadedPlan:
    """Return a plan with its weights, packed here; InputError for one that is missing."""
    packed = packed_weights(plan.packed, artifact.sections[PREPARE], weights)
    hosts = host_functions(plan, artifact.sections[HOSTS])
    return LoadedPlan(artifact.signature, plan, packed, hosts)
