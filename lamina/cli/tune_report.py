"""What `lamina tune` prints."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from lamina.cli.output import emit_table, printable

if TYPE_CHECKING:
    from lamina.measure.tuning import Finding, Tuning
    from lamina.measure.workbench import Workbench
    from lamina.passes.schedules.database import Numbers

_COLUMNS: Final = ("class", "default", "us", "winner", "us", "gain")


def candidates_json(
    about: Mapping[str, Any], bench: "Workbench", search: "Tuning"
) -> dict[str, Any]:
    """Return the classes with their default schedules and what is tried beside each."""
    from lamina.passes.schedules.neighbours import AXES

    classes = [
        {
            **_about(each),
            "candidates": [
                dict(numbers) for axis in AXES for numbers in search.candidates(each.key, axis)
            ],
        }
        for each in search.findings.values()
    ]
    return {**about, "machine": asdict(bench.machine), "classes": classes}


def print_candidates(facts: Mapping[str, Any]) -> None:
    """Print what `candidates_json` returned."""
    rows = [
        (each["class"], _text(each["default"]), ", ".join(map(_text, each["candidates"])) or "none")
        for each in facts["classes"]
    ]
    emit_table(("class", "default", "candidates"), rows)


def tuning_json(about: Mapping[str, Any], bench: "Workbench", search: "Tuning") -> dict[str, Any]:
    """Return what was found, class by class; times in ns a call."""
    classes = [
        {
            **_about(each),
            "winner": None if each.winner is None else dict(each.winner),
            "default_nanoseconds": each.default_nanoseconds,
            "nanoseconds": each.nanoseconds,
            "gain": 1.0 - each.ratio,
            "skipped": each.skipped or None,
        }
        for each in search.findings.values()
    ]
    kept = sum(each["winner"] is not None for each in classes)
    done = {"rounds": search.rounds, "complete": search.complete, "kept": kept}
    return {**about, "machine": asdict(bench.machine), **done, "classes": classes}


def print_tuning(facts: Mapping[str, Any]) -> None:
    """Print what `tuning_json` returned."""
    emit_table(_COLUMNS, map(_row, facts["classes"]))
    part = "" if facts["complete"] else ", not all that there are"
    said = f"{facts['rounds']} rounds in {facts['seconds']:.1f} s{part}"
    where = f", kept in {facts['file']}" if facts["kept"] else ""
    print(printable(f"{said}: {facts['kept']} faster schedules{where}"))


def _about(finding: "Finding") -> dict[str, Any]:
    return {
        "class": finding.key,
        "kernels": list(finding.kernels),
        "default": dict(finding.default),
    }


def _row(each: Mapping[str, Any]) -> tuple[str, ...]:
    if each["winner"] is None:
        return (each["class"], _text(each["default"]), "", each["skipped"] or "the default", "", "")
    before, after = each["default_nanoseconds"] / 1e3, each["nanoseconds"] / 1e3
    times = (f"{before:.1f}", _text(each["winner"]), f"{after:.1f}")
    return (each["class"], _text(each["default"]), *times, f"{each['gain']:.1%}")


def _text(numbers: "Numbers") -> str:
    return " ".join(f"{name}={number}" for name, number in numbers.items())
