"""How a call of the driver is made: counted, locked, and answered with a code."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from lamina.testing.ptx.device import Specification
from lamina.testing.ptx.driver.enumerations import CUresult
from lamina.testing.ptx.driver.handles import (
    CUcontext,
    CUgraph,
    CUgraphExec,
    CUlibrary,
    CUstream,
)
from lamina.testing.ptx.fault import KernelFault

_OF_FAULT = {
    "bounds": CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,
    "alignment": CUresult.CUDA_ERROR_MISALIGNED_ADDRESS,
    "trap": CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION,
    "endless": CUresult.CUDA_ERROR_LAUNCH_TIMEOUT,
}


class Refused(Exception):
    """A call does not succeed, for a reason."""

    def __init__(self, result: CUresult, why: str) -> None:
        super().__init__(why)
        self.result = result


@dataclass
class Injected:
    """The result that a call is to give, once so many more of it have been made."""

    name: str | None
    result: CUresult
    after: int
    sticky: bool


class Calls:
    """What all calls share: devices, contexts, streams, and what was asked to go wrong.

    With `report`, a kernel's fault is an error code that stays, as on hardware; without, it is
    raised. `reason` says why the last call failed, `counts` how often each was made.
    """

    def __init__(
        self,
        devices: Sequence[Specification],
        *,
        report: bool,
        poison: int,
        independent: bool,
    ) -> None:
        self.specifications = tuple(devices)
        self.report = report
        self.poison = poison
        self.independent = independent
        self.counts: Counter[str] = Counter()
        self.reason = ""
        self.initialised = False
        self.contexts: dict[int, CUcontext] = {}
        self.streams: list[CUstream] = []
        self.libraries: list[CUlibrary] = []
        self.graphs: list[CUgraph | CUgraphExec] = []
        self.pinned: dict[int, tuple[Any, int]] = {}
        self.lock = threading.RLock()
        self.current = threading.local()
        self._injected: list[Injected] = []
        self.dead: CUresult | None = None

    def fail(
        self, result: CUresult, name: str | None = None, *, after: int = 0, sticky: bool = False
    ) -> None:
        """Let a call, of one function or of any, give an error, after so many more.

        A sticky one is given by every later call too, as by a device that is lost.
        """
        self._injected.append(Injected(name, CUresult(result), after, sticky))

    def lose(self, *, after: int = 0) -> None:
        """Lose the device for good after so many more calls."""
        self.fail(CUresult.CUDA_ERROR_LAUNCH_FAILED, after=after, sticky=True)

    def check_injected(self, name: str) -> None:
        """Raise what was asked for."""
        if self.dead is not None:
            raise Refused(self.dead, "the device is lost")
        for injected in tuple(self._injected):
            if injected.name not in (None, name):
                continue
            if injected.after > 0:
                injected.after -= 1
                continue
            self._injected.remove(injected)
            if injected.sticky:
                self.dead = injected.result
            raise Refused(injected.result, f"{injected.result.name} was injected")

    def faulted(self, fault: KernelFault) -> Refused:
        """Return the refusal that a kernel's fault gives from now on."""
        self.dead = _OF_FAULT.get(fault.kind, CUresult.CUDA_ERROR_LAUNCH_FAILED)
        return Refused(self.dead, str(fault))

    @property
    def context(self) -> CUcontext:
        """The context of the calling thread."""
        found: CUcontext | None = getattr(self.current, "context", None)
        if found is None:
            raise Refused(CUresult.CUDA_ERROR_INVALID_CONTEXT, "no context is current")
        if not found.alive:
            raise Refused(CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context is destroyed")
        return found


def call(values: int = 0, *, bare: bool = False, releases: bool = False) -> Callable[..., Any]:
    """Make a method a call that answers (result, values…), all None after an error.

    A `bare` one needs no `cuInit`; one that `releases` still works when the device is lost.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name: str = getattr(function, "__name__", "")

        @wraps(function)
        def answer(self: Calls, *arguments: Any) -> tuple[Any, ...]:
            with self.lock:
                self.counts[name] += 1
                try:
                    if not (bare or self.initialised):
                        raise Refused(CUresult.CUDA_ERROR_NOT_INITIALIZED, "cuInit comes first")
                    if not releases:
                        self.check_injected(name)
                    found = function(self, *arguments)
                except Refused as refused:
                    self.reason = f"{name}: {refused}"
                    return (refused.result, *[None] * values)
                except KernelFault as fault:
                    if not self.report:
                        raise
                    refused = self.faulted(fault)
                    self.reason = f"{name}: {refused}"
                    return (refused.result, *[None] * values)
            if values == 0:
                return (CUresult.CUDA_SUCCESS,)
            return (CUresult.CUDA_SUCCESS, found) if values == 1 else (CUresult(0), *found)

        return answer

    return decorate
