"""What benchmarks print: times beside the machine's limit and beside peers."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

OURS = "lamina"


@dataclass(frozen=True)
class Row:
    """One measure: the seconds of each side, ours being `lamina`.

    `work` is what is done in them, in `unit` times seconds; `least` is how many seconds the
    limits of the machine allow, None if they are not known. A side whose name begins with
    `lamina` is no peer.
    """

    name: str
    threads: int
    seconds: dict[str, float]
    work: float
    unit: str
    least: float | None

    @property
    def rate(self) -> float:
        """Our work a second."""
        return self.work / self.seconds[OURS]

    @property
    def of_limit(self) -> float | None:
        """The share of what the machine allows."""
        return None if self.least is None else self.least / self.seconds[OURS]

    @property
    def ratio(self) -> float | None:
        """How many times faster than the best peer; None without one."""
        peers = [took for side, took in self.seconds.items() if not side.startswith(OURS)]
        return min(peers) / self.seconds[OURS] if peers else None

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {
            "name": self.name,
            "threads": self.threads,
            "seconds": self.seconds,
            "rate": self.rate,
            "unit": self.unit,
            "of_limit": self.of_limit,
            "ratio": self.ratio,
        }


class Printer:
    """Prints rows as they come, with a head wherever the sides or the unit change."""

    def __init__(self) -> None:
        self._head = ""

    def __call__(self, row: Row) -> None:
        """Print one."""
        others = "".join(f"{f'{side} us':>22}" for side in row.seconds if side != OURS)
        head = f"{'':32}thr{'us':>12}{row.unit:>12}{'% of limit':>12}{others}"
        if row.ratio is not None:
            head += f"{'x best':>9}"
        if head != self._head:
            print(head)
            self._head = head
        line = f"{row.name:32}{row.threads:3}{row.seconds[OURS] * 1e6:12.1f}{row.rate:12.1f}"
        line += f"{'-' if row.of_limit is None else f'{row.of_limit * 100:.0f}':>12}"
        for side, took in row.seconds.items():
            line += f"{took * 1e6:22.1f}" if side != OURS else ""
        print(line + (f"{row.ratio:9.2f}" if row.ratio is not None else ""), flush=True)


def summary(rows: Sequence[Row], group: Callable[[Row], str]) -> Iterator[str]:
    """Yield lines on each group of rows: means and the least of ratios and shares of limits."""
    for threads in sorted({row.threads for row in rows}):
        own = [row for row in rows if row.threads == threads]
        for name in dict.fromkeys(map(group, own)):
            yield from _of_group(f"{name}, {threads} thr", [r for r in own if group(r) == name])


def _of_group(name: str, rows: Sequence[Row]) -> Iterator[str]:
    sides = dict.fromkeys(side for row in rows for side in row.seconds if side != OURS)
    for side in sides:
        with_it = [row for row in rows if side in row.seconds]
        yield _line(name, side, (row.seconds[side] / row.seconds[OURS] for row in with_it))
    if len(sides) > 1 and all(row.ratio is not None for row in rows):
        yield _line(name, "the best peer", (row.ratio or 0.0 for row in rows))
    shares = [row.of_limit for row in rows if row.of_limit is not None]
    if shares:
        mean = 100 * geometric_mean(shares)
        yield f"{name}: {mean:.0f} % of the limit (geometric mean), least {100 * min(shares):.0f} %"


def _line(name: str, side: str, ratios: Iterable[float]) -> str:
    found = list(ratios)
    mean = geometric_mean(found)
    return f"{name}: {mean:.2f} x {side} (geometric mean), least {min(found):.2f} x"


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))
