"""Measure a model and its peers in turns, so that a busy moment of the machine meets all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from lamina.measure.kernel_table import StepTable, step_table
from lamina.measure.limits import Limits
from lamina.measure.peers.peer import Peer
from lamina.measure.subjects import Phase, Subject
from lamina.progress import report
from lamina.targets.base import Executable
from lamina.targets.timeline import Traced, TracedStep, trace

_WORK: Final = "rounds"


@dataclass(frozen=True)
class PhaseResult:
    """A phase: median seconds of ours and of each peer, and where ours goes.

    `table` comes from a run of its own, which noting makes a little slower; None where the target
    keeps no timeline. `of_reading` is the part of the time that reading all weights once a step
    would take, `of_arithmetic` that of the products at the machine's peaks; None where unknown.
    """

    phase: Phase
    seconds: float
    peers: Mapping[str, float]
    table: StepTable | None
    of_reading: float | None
    of_arithmetic: float | None

    @property
    def rate(self) -> float:
        """Tokens (or runs) a second."""
        return self.phase.units / self.seconds

    @property
    def steps(self) -> int:
        """How many steps the phase takes."""
        return self.table.steps if self.table is not None else 1


def measure(
    subject: Subject,
    executable: Executable,
    limits: Limits,
    weights: int,
    *,
    repeat: int = 5,
    peers: Sequence[Peer] = (),
    prompt: Sequence[int] = (),
) -> list[PhaseResult]:
    """Warm up, note one run's timeline, and then time `repeat` rounds of one run of each side.

    `weights` are the bytes of the model's weights in its file, `prompt` is what peers are given.
    """
    total = repeat + 2
    subject.run()
    for peer in peers:
        peer.run(prompt, subject.phases[-1].tokens)
    report(_WORK, 1, total)
    tables = _tables(subject, executable, limits)
    report(_WORK, 2, total)
    taken: dict[str, list[list[float]]] = {name: [] for name in ("", *(p.name for p in peers))}
    for number in range(repeat):
        taken[""].append(subject.run())
        for peer in peers:
            taken[peer.name].append(peer.run(prompt, subject.phases[-1].tokens))
        report(_WORK, number + 3, total)
    medians = {
        name: [median(column) for column in zip(*runs, strict=True)] for name, runs in taken.items()
    }
    return [
        _result(
            phase,
            {name: seconds[n] for name, seconds in medians.items()},
            tables[n],
            limits,
            weights,
        )
        for n, phase in enumerate(subject.phases)
    ]


def _result(
    phase: Phase,
    seconds: Mapping[str, float],
    table: StepTable | None,
    limits: Limits,
    weights: int,
) -> PhaseResult:
    ours = seconds[""]
    steps, at_limit = (0, 0.0) if table is None else (table.steps, table.at_limit)
    reading, arithmetic = steps * weights / limits.read, steps * at_limit
    return PhaseResult(
        phase=phase,
        seconds=ours,
        peers={name: value for name, value in seconds.items() if name},
        table=table,
        of_reading=reading / ours if reading else None,
        of_arithmetic=arithmetic / ours if arithmetic else None,
    )


def _tables(subject: Subject, executable: Executable, limits: Limits) -> list[StepTable | None]:
    """Return the table of each phase of a run."""
    if not isinstance(executable, Traced):
        return [None for _ in subject.phases]
    with trace(executable) as timeline:
        subject.run()
    tables: list[StepTable | None] = []
    before: TracedStep | None = None
    for steps in subject.split(timeline.steps):
        tables.append(step_table(steps, limits, limits.threads, before))
        before = steps[-1]
    return tables
