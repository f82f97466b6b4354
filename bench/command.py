"""What the scripts that measure kernels share: options, the run, the table, and the JSON file."""

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from typing import Any

from bars import HEAD, Figure
from figures import OURS, Printer, Row, summary
from machine import describe
from peer import Peer, peer, restrictions
from positive import positive
from step import Array
from turns import Once, averaged, medians

from lamina.errors import LaminaError
from lamina.measure.limits import Limits, measure_limits
from lamina.targets.cpu.features import detect
from lamina.targets.cpu.target import CpuTarget
from lamina.targets.spec import parse_target, target_name


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
    budget: float = inf
    """Seconds that the rounds of a row are to take at most."""

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
        return medians(sides, self.rounds, self.budget)


def _turn(once: Once) -> Once:
    return lambda: averaged(once)


def _asked(other: Peer, name: str) -> Once:
    return lambda: other.seconds(name)


Measure = Callable[[Setting], Iterator[Row]]
Held = Callable[[Sequence[Row], str | None], Iterator[Figure]]
"""Gives what rows come to beside its bars, on a feature level or, None, on all that there is."""


def unheld(rows: Sequence[Row], level: str | None) -> Iterator[Figure]:
    """Yield nothing: there are no bars."""
    return iter(())


@dataclass(frozen=True)
class Script:
    """A benchmark: the peer's script, how rows are measured, summed up, and held to bars.

    `budget` is how many seconds the rounds of a row are to take, unless that is said.
    """

    peer: str | None
    measure: Measure
    group: Callable[[Row], str]
    held: Held = unheld
    budget: float = inf


def level_of(target: str) -> str | None:
    """Return the feature level that a target names, None for the machine's best.

    ArgumentTypeError if that is no spec of the CPU target, or the machine has no such level.
    """
    if target_name(target) != CpuTarget.name:
        raise argparse.ArgumentTypeError(f"expected the CPU target, got {target!r}")
    try:
        found = parse_target(CpuTarget, target)
        assert isinstance(found, CpuTarget)
        level = None if found.features == "auto" else found.features
        detect(level)
    except LaminaError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return level


def _target(text: str) -> str:
    level_of(text)
    return text


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the options that all scripts have."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--threads", type=positive, nargs="+", default=[1, 2])
    made.add_argument("--rounds", type=positive, default=5)
    made.add_argument("--only", nargs="+", default=(), metavar="PATTERN", help="rows, as 'f32*M=1'")
    made.add_argument("--peer-python", metavar="PATH", help="an interpreter with the peers")
    made.add_argument(
        "--target",
        type=_target,
        default=CpuTarget.name,
        metavar="SPEC",
        help="'cpu{features=avx2}' restricts both sides to that level",
    )
    made.add_argument(
        "--budget", type=float, metavar="SECONDS", help="what the rounds of a row are to take"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return made


def measured(script: Script, options: argparse.Namespace, limits: dict[int, Limits]) -> list[Row]:
    """Return the rows, each printed when it is there; `limits` keeps those of the machine."""
    # Models here are made up: nothing of them is worth keeping.
    os.environ["LAMINA_DISK_CACHE"] = "off"
    level = level_of(options.target)
    budget = script.budget if options.budget is None else options.budget
    rows: list[Row] = []
    show = Printer()
    for threads in options.threads:
        if threads not in limits:
            limits[threads] = measure_limits(threads, rounds=options.rounds, features=detect(level))
            print(f"limits: {limits[threads]}")
        with ExitStack() as stack:
            other = None
            if script.peer:
                started = peer(options.peer_python, script.peer, threads, level)
                other = stack.enter_context(started)
            for library, said in other.greeting.items() if other else ():
                print(f"{library}: {said}")
            setting = Setting(
                threads,
                limits[threads],
                other,
                options.target,
                options.rounds,
                options.only,
                options.peer_python,
                budget,
            )
            for row in script.measure(setting):
                show(row)
                rows.append(row)
    return rows


def main(description: str | None, script: Script) -> None:
    """Measure, print rows and what they come to, and write the JSON file if one is asked for."""
    options = parser(description).parse_args()
    print(head(options, peers=script.peer is not None))
    if script.peer and options.peer_python is None:
        print("no peer: give an interpreter that has them as --peer-python")
    limits: dict[int, Limits] = {}
    rows = measured(script, options, limits)
    print(*summary(rows, script.group), sep="\n")
    figures = list(script.held(rows, level_of(options.target)))
    if figures:
        print(HEAD, *figures, sep="\n")
    if options.json:
        write(options.json, limits, rows, figures)


def head(options: argparse.Namespace, *, peers: bool = True) -> str:
    """Return what comes first: the machine, the rounds, and what both sides are restricted to.

    Without `peers` that a level restricts, only we are. SystemExit if they know no such level.
    """
    said = restrictions(level_of(options.target), options.peer_python) if peers else ""
    return f"on {describe()}, median of {options.rounds} rounds, {options.target}{said}"


def write(
    path: Path, limits: dict[int, Limits], rows: Sequence[Row], figures: Sequence[Figure] = ()
) -> None:
    """Write everything as one JSON object."""
    document = {
        "machine": describe(),
        "limits": {threads: vars(found) for threads, found in limits.items()},
        "rows": [row.as_dict() for row in rows],
        "figures": [figure.as_dict() for figure in figures],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
