"""A few rows of every benchmark of kernels and models, beside the last recorded figures.

    python bench/quick.py [--peer-python PATH] [--threads 2] [--record]

It takes under two minutes on an idle machine. `--record` keeps the figures in
`bench/recorded.json`: how many times faster than the best peer, and the share of the machine's
limit. Without a peer only shares are measured, and recorded ratios stay.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attention
import command
import encoder
import generation
import gpt2
import linears
import rows
from command import Script
from figures import Row
from machine import describe

from lamina.measure.limits import Limits

RECORDED = Path(__file__).with_name("recorded.json")

FEW: tuple[tuple[Script, tuple[str, ...]], ...] = (
    (
        linears.SCRIPT,
        (
            *("f32 768x768 M=1", "f32 4096x4096 M=8", "f32 4096x4096 M=128"),
            *("q8_0 4096x4096 M=1", "q4_0 4096x4096 M=1", "q4_0 4096x4096 M=128"),
        ),
    ),
    (rows.SCRIPT, ("softmax *", "rms_norm *", "gelu 4096*", "silu 512*")),
    (attention.SCRIPT, ("attention D=64 3:1",)),
    (encoder.SCRIPT, ("encoder 1x8", "encoder 1x64")),
    (gpt2.SCRIPT, ("*",)),
    (generation.SCRIPT, ("*",)),
)
"""What is measured: rows of scripts."""

NOTABLE = 0.1
"""The relative change that is pointed at."""


def read(path: Path) -> dict[str, Any]:
    """Return what was recorded; nothing, if there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": {}}


def record(path: Path, before: dict[str, Any], found: Sequence[Row]) -> None:
    """Write the rows found over those of the same name that were recorded."""
    merged = dict(before["rows"])
    for row in found:
        old = merged.get(key(row), {})
        merged[key(row)] = {
            "ratio": _rounded(row.ratio) or old.get("ratio"),
            "of_limit": _rounded(row.of_limit),
        }
    document = {"machine": describe(), "rows": merged}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def key(row: Row) -> str:
    """Return the name that a row is recorded under."""
    return f"{row.name}, {row.threads} thr"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def compared(before: dict[str, Any], found: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each row: its ratio and share of the limit, now and as recorded."""
    yield f"{'':36}{'x best':>8}{'recorded':>10}{'% of limit':>12}{'recorded':>10}"
    for row in found:
        old = before["rows"].get(key(row), {})
        line = f"{key(row):36}{_shown(row.ratio, 1)}{_shown(old.get('ratio'), 1, 10)}"
        line += f"{_shown(row.of_limit, 100, 12)}{_shown(old.get('of_limit'), 100, 10)}"
        measure = "of_limit" if row.ratio is None else "ratio"
        yield line + _change(getattr(row, measure), old.get(measure))


def _shown(value: float | None, scale: int, width: int = 8) -> str:
    return f"{'-' if value is None else f'{value * scale:.{2 if scale == 1 else 0}f}':>{width}}"


def _change(now: float | None, before: float | None) -> str:
    if not now or not before or abs(now / before - 1) < NOTABLE:
        return ""
    return f"  {100 * (now / before - 1):+.0f} %"


def main() -> None:
    """Measure, compare, and record if asked to."""
    parser = command.parser(__doc__)
    parser.set_defaults(threads=[2])
    parser.add_argument(
        "--record", action="store_true", help=f"keep the figures in {RECORDED.name}"
    )
    options = parser.parse_args()
    before, limits = read(RECORDED), dict[int, Limits]()
    print(command.head(options))
    if before["rows"]:
        print(f"recorded on {before['machine']}")
    found: list[Row] = []
    for script, few in FEW:
        chosen = argparse.Namespace(**vars(options) | {"only": options.only or few})
        found += command.measured(script, chosen, limits)
    print(*compared(before, found), sep="\n")
    if options.record:
        record(RECORDED, before, found)
    if options.json:
        command.write(options.json, limits, found)


if __name__ == "__main__":
    main()
