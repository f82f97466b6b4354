"""Loaded code on a device: weights that stay there, and calls with memory of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np

from lamina.errors import TargetUnavailable
from lamina.progress import report
from lamina.targets.base import Array, Executable, Signature, by_name
from lamina.targets.devices.loading import LoadedPlan
from lamina.targets.devices.memory import B, DeviceMemory
from lamina.targets.devices.noting import Recorder
from lamina.targets.devices.session import DeviceSession
from lamina.targets.plans.bases import packed_bases
from lamina.targets.timeline import Timeline

D = TypeVar("D", bound=DeviceMemory[Any])
"""The device."""

C = TypeVar("C")
"""The kernels as they are on it."""


class DeviceExecutable(Executable, Generic[D, B, C]):
    """Kernels and weights on a device: threads may share it, a call has memory of its own."""

    def __init__(self, loaded: LoadedPlan, device: D, code: C) -> None:
        """Bring the weights of a plan to the device; what host calls read stays here too."""
        self._signature = loaded.signature
        self.plan = plan = loaded.plan
        self.hosts = tuple(loaded.hosts)
        self.device = device
        self.code = code
        self.recorder = Recorder()
        self.packed: dict[int, B] = {}
        self.kept: dict[int, Array] = {}
        self._free: deque[DeviceSession[B, Any]] = deque()
        bases = packed_bases(plan)
        needed = {base for base, _ in plan.arguments} | {copy[0] for copy in plan.copies}
        called = {buffer.base for host in plan.hosts for buffer in host.buffers}
        with device.lock:
            for base, array in zip(bases, loaded.packed, strict=False):
                if base in called:
                    self.kept[base] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                if base in needed:
                    self.packed[base] = device.storage(array.nbytes)
                    device.write(self.packed[base], array)
                report("uploading weights", base + 1 - bases.start, len(bases))

    @property
    def signature(self) -> Signature:
        """Inputs, outputs and states."""
        return self._signature

    @property
    def timeline(self) -> Timeline | None:
        """Where steps are noted, if they are; see `lamina.targets.timeline.trace`."""
        return self.recorder.timeline

    @timeline.setter
    def timeline(self, timeline: Timeline | None) -> None:
        self.recorder.timeline = timeline

    def __call__(self, *args: Array, **kwargs: Array) -> dict[str, Array]:
        """Run once: inputs by position or name, states by name (updated in place).

        InputError names an argument that is missing, unknown or of the wrong dtype or shape, and
        the node at which a value is out of range.
        """
        given = by_name(self._signature, args, kwargs)
        states = {binding.name: given.pop(binding.name) for binding in self._signature.states}
        try:
            session = self._free.pop()
        except IndexError:
            session = self._new_session()
        session.hold(states)
        try:
            return session.run(given)
        except TargetUnavailable:
            # What was on the device is lost, the states with it.
            session.forget()
            raise
        finally:
            session.let_go()
            self._free.append(session)

    def session(self, states: Mapping[str, Array] | None = None) -> DeviceSession[B, Any]:
        """Return a session on these states, for many calls of one thread."""
        session = self._new_session()
        session.hold(dict(states or {}))
        return session

    @abstractmethod
    def _new_session(self) -> DeviceSession[B, Any]:
        """Return a session without memory."""
