"""What benchmarks print where a figure has a bar: both, and the rates that it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A ratio or a share, and what it has to be: `bar` at least, or at most if `most`.

    `value` is None where a side is missing, `bar` None for a figure to compare with. A share is of
    1, and shown as a percentage. `rates` are those of the sides, in `unit`.
    """

    name: str
    threads: int
    value: float | None
    bar: float | None
    rates: Mapping[str, float]
    unit: str = "tokens/s"
    most: bool = False
    share: bool = False

    @property
    def met(self) -> bool | None:
        """Whether it is as it has to be; None without a value or a bar."""
        if self.value is None or self.bar is None:
            return None
        return self.value <= self.bar if self.most else self.value >= self.bar

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {**vars(self), "rates": dict(self.rates), "met": self.met}

    def __str__(self) -> str:
        bar = "" if self.bar is None else f"{'<=' if self.most else '>='} {self._shown(self.bar)}"
        met = {None: "", True: "yes", False: "no"}[self.met]
        sides = ", ".join(f"{side} {rate:.1f}" for side, rate in self.rates.items())
        unit = f" {self.unit}" if sides else ""
        head = f"{self.name:32}{self.threads:3}{self._shown(self.value):>10}"
        return f"{head}{bar:>12}{met:>5}   {sides}{unit}"

    def _shown(self, value: float | None) -> str:
        if value is None:
            return "-"
        return f"{value * 100:.1f} %" if self.share else f"{value:.2f} x"


HEAD = f"{'':32}{'thr':>3}{'':>10}{'bar':>12}{'met':>5}   of"
"""The line above figures."""
