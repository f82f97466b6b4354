"""One model compiled again and again, each time with other schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lamina import compiler
from lamina.compiled.model import CompiledModel
from lamina.errors import InputError, UnsupportedError
from lamina.frontend.model import Model
from lamina.passes.schedule_groups import ScheduleGroupsPass
from lamina.passes.schedules.choice import given_text
from lamina.passes.schedules.database import Numbers
from lamina.passes.schedules.machine import Machine
from lamina.passes.schedules.scheduled import Scheduled, scheduled_groups
from lamina.plugins import manager
from lamina.targets.base import Executable, Target
from lamina.targets.text_executable import with_texts

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

Schedules = Mapping[str, Numbers]
"""The numbers of a schedule by class."""


@dataclass(frozen=True)
class Build:
    """Code with some schedules: what was scheduled, by the kernel's name and kind of rows."""

    executable: Executable
    scheduled: Mapping[tuple[str, bool], Scheduled]


class Workbench:
    """A model that has gone through all passes before schedules are chosen."""

    def __init__(self, model: Model, target: str | Target, threads: int | None = None) -> None:
        """Run those passes.

        Raises `InputError` for a compiled model, `UnsupportedError` for a target or a stage whose
        passes choose no schedules.
        """
        if isinstance(model, CompiledModel):
            raise InputError(f"{model.source}: is compiled, its schedules are chosen")
        self.target = compiler.resolve_target(target, model, threads)
        self._model = model
        passes = compiler.resolve_pipeline(None, model.module, self.target)
        places = [n for n, each in enumerate(passes) if isinstance(each, ScheduleGroupsPass)]
        if len(places) != 1:
            raise UnsupportedError(
                f"{self.target.name} has no pass {ScheduleGroupsPass.name} for this model: there "
                "is nothing to tune"
            )
        (place,) = places
        chosen = passes[place]
        assert isinstance(chosen, ScheduleGroupsPass)
        self._pass, self._rest = replace(chosen, tuned=False), passes[place + 1 :]
        self._grouped = compiler.lower(model, self.target, list(passes[:place]))
        self._packed: Mapping[str, Any] | None = None

    @property
    def machine(self) -> Machine:
        """What schedules are chosen for."""
        return self._pass.machine

    def scheduled(self, schedules: Schedules | None = None) -> list[Scheduled]:
        """Return the groups with these schedules, the model's own choice where none is said."""
        module, few_rows = self._schedule(schedules or {}), self._pass.few_rows
        return scheduled_groups(module, few_rows)

    def build(self, schedules: Schedules | None = None) -> Build:
        """Compile and load with these schedules; weights are packed once for all builds."""
        module = self._schedule(schedules or {})
        groups = scheduled_groups(module, self._pass.few_rows)
        lowered = compiler.lower(module, self.target, list(self._rest))
        passes: tuple[ModulePass, ...] = (self._pass, *self._rest)
        artifact = compiler.emit(manager.context(), lowered, self.target, passes)
        if self._packed is None:
            self._packed = self.target.pack(artifact, self._model.weights)
        executable = with_texts(self.target.load(artifact, self._packed))
        return Build(executable, {(each.name, each.few): each for each in groups})

    def _schedule(self, schedules: Schedules) -> ModuleOp:
        given = tuple(given_text(key, numbers) for key, numbers in schedules.items())
        return compiler.lower(self._grouped, self.target, [replace(self._pass, given=given)])
