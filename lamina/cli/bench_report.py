"""What `lamina bench` prints."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from lamina.cli.output import emit_table, megabytes, printable, say

if TYPE_CHECKING:
    from lamina.measure.kernel_table import KernelRow, StepTable
    from lamina.measure.limits import Limits
    from lamina.measure.rounds import PhaseResult

_COLUMNS: Final = ("kernel", "calls", "ms", "share", "rate", "of limit", "schedule")
_UNITS: Final = {"reading": "GB/s", "f32": "GFLOP/s", "8-bit": "GOP/s"}


def bench_json(
    about: Mapping[str, Any],
    limits: "Limits",
    builds: Mapping[str, str],
    results: "Sequence[PhaseResult]",
) -> dict[str, Any]:
    """Return everything as one object; times in seconds, rates and limits a second."""
    from lamina.measure.machine import describe

    phases = [
        {
            "name": each.phase.name,
            "tokens": each.phase.tokens,
            "steps": each.steps,
            "seconds": each.seconds,
            "rate": each.rate,
            "of_reading": each.of_reading,
            "of_arithmetic": each.of_arithmetic,
            "peers": {
                name: {"seconds": seconds, "rate": each.phase.units / seconds}
                for name, seconds in each.peers.items()
            },
            "step": None if each.table is None else asdict(each.table),
        }
        for each in results
    ]
    machine = {"machine": describe(), "limits": asdict(limits), "peers": dict(builds)}
    return {**about, **machine, "phases": phases}


def print_bench(
    about: Mapping[str, Any],
    limits: "Limits",
    builds: Mapping[str, str],
    results: "Sequence[PhaseResult]",
) -> None:
    """Print the limits, and for each phase a line and the table of its kernels."""
    from lamina.measure.machine import describe

    weights = megabytes(about["weights_bytes"])
    model, target, repeat = (str(about[key]) for key in ("model", "target", "repeat"))
    print(printable(f"{model}, {weights} of weights, on {target}: median of {repeat}"))
    print(f"machine: {describe()}")
    print(f"limits: {limits}")
    for name, build in builds.items():
        print(printable(f"{name}: {build}"))
    for each in results:
        print(f"\n{_line(each)}")
        if each.table is None:
            say("this target keeps no timeline: there is no table of kernels")
            continue
        emit_table(_COLUMNS, [*map(_row, each.table.kernels), *_rest(each.table)])
        if each.table.lost:
            say(f"{each.table.lost} events found no room: the table is without them")


def _line(result: "PhaseResult") -> str:
    parts = [_speed(result, result.seconds)]
    if result.phase.tokens:
        milliseconds = result.seconds / result.steps * 1e3
        parts.append(f"{result.steps} step{'s' * (result.steps != 1)} of {milliseconds:.2f} ms")
    if result.of_reading is not None:
        parts.append(f"{result.of_reading:.0%} of reading the weights once a step")
    if result.of_arithmetic is not None:
        parts.append(f"{result.of_arithmetic:.0%} of the arithmetic")
    for name, seconds in result.peers.items():
        parts.append(f"{name} {_speed(result, seconds)} ({seconds / result.seconds:.2f} x)")
    return f"{result.phase.name}: {', '.join(parts)}"


def _speed(result: "PhaseResult", seconds: float) -> str:
    if not result.phase.tokens:
        return f"{seconds * 1e3:.3f} ms"
    return f"{result.phase.units / seconds:.1f} tokens/s"


def _row(row: "KernelRow") -> tuple[str, ...]:
    rate = part = "-"
    if row.limit is not None and row.rate is not None and row.of_limit is not None:
        rate = f"{row.rate / 1e9:.1f} {_UNITS[row.limit]}"
        part = f"{row.of_limit:.0%} of {row.limit}"
    return (
        row.kernel,
        f"{row.calls:.4g}",
        *_time(row.seconds, row.share),
        rate,
        part,
        row.schedule,
    )


def _rest(table: "StepTable") -> Iterator[tuple[str, ...]]:
    """Yield the rows of what is no kernel."""
    whole = table.seconds or 1.0
    for name, seconds in (
        ("(wait at barriers)", table.waiting),
        ("(between steps)", table.between),
        ("(other)", table.other),
    ):
        yield (name, "", *_time(seconds, seconds / whole), "", "", "")


def _time(seconds: float, share: float) -> tuple[str, str]:
    return f"{seconds * 1e3:.3f}", f"{share:.1%}"
