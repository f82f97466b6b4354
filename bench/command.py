"""What the scripts that measure kernels share: options, the run, the table, and the JSON file."""

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from figures import OURS, Printer, Row, summary
from machine import describe
from peer import MASKS, Peer, peer
from positive import positive
from step import Array
from turns import Once, averaged, medians

from lamina.measure.limits import Limits, measure_limits
from lamina.targets.cpu.features import detect


@dataclass(frozen=True)
class Setting:
    """What rows are measured with: the best that the machine does, and the peer if there is one."""

    threads: int
    limits: Limits
    peer: Peer | None
    target: str
    rounds: int
    only: Sequence[str] = field(default=())
    python: str | None = None
    """An interpreter that may have peers."""

    def wants(self, name: str) -> bool:
        """Tell whether a row of this name is asked for."""
        return not self.only or any(fnmatchcase(name, pattern) for pattern in self.only)

    def prepared(self, kind: str, name: str, **job: Any) -> Array:
        """Have the peer make a job, and return what it computes."""
        if self.peer is None:
            raise ValueError("there is no peer")
        self.peer.prepare(kind, name, **job)
        return self.peer.result(name)

    def times(
        self, ours: Once, peers: Sequence[str] = (), others: Mapping[str, Once] | None = None
    ) -> dict[str, list[float]]:
        """Return the median seconds of the parts of each side: ours, the peer's jobs, and others.

        The names of others that are no peers begin with `lamina`.
        """
        sides: dict[str, Once] = {OURS: lambda: averaged(ours)}
        sides |= {name: _turn(once) for name, once in (others or {}).items()}
        if self.peer is not None:
            sides |= {name: _asked(self.peer, name) for name in peers}
        return medians(sides, self.rounds)


def _turn(once: Once) -> Once:
    return lambda: averaged(once)


def _asked(other: Peer, name: str) -> Once:
    return lambda: other.seconds(name)


Measure = Callable[[Setting], Iterator[Row]]


@dataclass(frozen=True)
class Script:
    """A benchmark: the peer's script, how rows are measured, and how they are summed up."""

    peer: str | None
    measure: Measure
    group: Callable[[Row], str]


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the options that all scripts have."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--threads", type=positive, nargs="+", default=[1, 2])
    made.add_argument("--rounds", type=positive, default=5)
    made.add_argument("--only", nargs="+", default=(), metavar="PATTERN", help="rows, as 'f32*M=1'")
    made.add_argument("--peer-python", metavar="PATH", help="an interpreter with the peers")
    made.add_argument("--isa", choices=sorted(MASKS), help="restrict both sides to a level")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return made


def measured(script: Script, options: argparse.Namespace, limits: dict[int, Limits]) -> list[Row]:
    """Return the rows, each printed when it is there; `limits` keeps those of the machine."""
    # Models here are made up: nothing of them is worth keeping.
    os.environ["LAMINA_DISK_CACHE"] = "off"
    target = f"cpu{{features={options.isa}}}" if options.isa else "cpu"
    rows: list[Row] = []
    show = Printer()
    for threads in options.threads:
        if threads not in limits:
            limits[threads] = measure_limits(
                threads, rounds=options.rounds, features=detect(options.isa)
            )
            print(f"limits: {limits[threads]}")
        with ExitStack() as stack:
            other = None
            if script.peer:
                started = peer(options.peer_python, script.peer, threads, options.isa)
                other = stack.enter_context(started)
            for library, said in other.greeting.items() if other else ():
                print(f"{library}: {said}")
            setting = Setting(
                threads,
                limits[threads],
                other,
                target,
                options.rounds,
                options.only,
                options.peer_python,
            )
            for row in script.measure(setting):
                show(row)
                rows.append(row)
    return rows


def main(description: str | None, script: Script) -> None:
    """Measure, print rows and what they come to, and write the JSON file if one is asked for."""
    options = parser(description).parse_args()
    print(f"on {describe()}, median of {options.rounds} rounds")
    if script.peer and options.peer_python is None:
        print("no peer: give an interpreter that has them as --peer-python")
    limits: dict[int, Limits] = {}
    rows = measured(script, options, limits)
    print(*summary(rows, script.group), sep="\n")
    if options.json:
        write(options.json, limits, rows)


def write(path: Path, limits: dict[int, Limits], rows: Sequence[Row]) -> None:
    """Write everything as one JSON object."""
    document = {
        "machine": describe(),
        "limits": {threads: vars(found) for threads, found in limits.items()},
        "rows": [row.as_dict() for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
