"""What every stage of the checks of a GPU is given, and how it says what it found."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from gpu_device import Array, Clock, Imitated

from lamina.errors import TargetUnavailable
from lamina.targets.cuda.device import CudaDevice
from lamina.targets.cuda.target import CudaTarget

T = TypeVar("T")

Record = dict[str, Any]
"""One thing that was found, ready for JSON: its `name`, whether it is `ok`, and figures."""
Records = Iterator[Record]

LIMITS = "limits.json"
WARPGROUPS = (9, 0)
"""The capability of devices on which four warps multiply together."""


@dataclass(frozen=True)
class Setting:
    """Where results go, the model to run, and when a stage should have come to its end.

    `dry` has everything done in small on a device that interprets PTX.
    """

    folder: Path
    dry: bool
    model: Path | None
    deadline: float
    """In seconds of `monotonic`."""
    skip: int = 0
    """How many of a stage's items were seen to before."""

    def target(
        self, arch: str = CudaTarget.arch, kv: str = CudaTarget.kv, *, tf32: bool = False
    ) -> CudaTarget:
        """Return the target."""
        kind = Imitated if self.dry else CudaTarget
        return kind(arch, kv, tf32=tf32)

    @cached_property
    def device(self) -> CudaDevice:
        """The device; TargetUnavailable where there is none."""
        return self.target().open()

    @cached_property
    def clock(self) -> Clock:
        """Times what the device does."""
        return Clock(self.device, once=self.dry)

    @property
    def architectures(self) -> list[str]:
        """What products are compiled for: the oldest, and the device's own where it has more."""
        own = ["sm_90a"] if self.device.capability == WARPGROUPS else []
        return [CudaTarget.arch, *own]

    @property
    def late(self) -> bool:
        """Whether no more should be begun."""
        return monotonic() > self.deadline

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """Yield what is to be seen to, as long as there is time, and say what is begun.

        If an item ends the process, the next process goes on with the one after it.
        """
        for number, item in enumerate(items):
            if number < self.skip:
                continue
            if self.late:
                return
            if self.device.closed:
                raise TargetUnavailable(self.device.closed)
            what = getattr(item, "name", None) or str(item)[:40]
            print(json.dumps({"begun": number, "what": what}), flush=True)
            yield item

    def size(self, real: int, dry: int) -> int:
        """Return one of two sizes."""
        return dry if self.dry else real

    def keep_limits(self, limits: dict[str, float]) -> None:
        """Keep what the device reaches for later stages: bytes a second by name."""
        (self.folder / LIMITS).write_text(json.dumps(limits), encoding="utf-8")

    def share(self, rate: float, name: str) -> float | None:
        """Return what part of a measured limit a rate is; None where it was not measured."""
        path = self.folder / LIMITS
        if not path.exists():
            return None
        return rate / float(json.loads(path.read_text(encoding="utf-8"))[name])


def difference(found: Array, expected: Array) -> float:
    """Return the largest difference, as a part of the largest expected number or of 1.

    Missing numbers and infinities have to be the same ones: inf where they are not.
    """
    import numpy as np

    if not expected.size:
        return 0.0
    ours, theirs = (np.asarray(each).astype(np.float64) for each in (found, expected))
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return float("inf")
    if not np.isfinite(ours[finite]).all():
        return float("inf")
    worst = float(np.abs(ours[finite] - theirs[finite]).max(initial=0.0))
    return worst / max(1.0, float(np.abs(theirs[finite]).max(initial=0.0)))
