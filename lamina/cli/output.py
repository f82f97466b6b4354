"""How commands speak: results on standard output, everything else on standard error."""

import json
import math
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from textwrap import shorten
from typing import Any, Final, cast
from unicodedata import category

_HEADING: Final = 60


def emit_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on one line; a number that is not finite becomes null."""
    print(json.dumps(_finite(value), ensure_ascii=False, allow_nan=False))


def emit_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print `rows` under `columns`: in colour and folded on a terminal, else a line each."""
    cells = [tuple(printable(str(cell)) for cell in row) for row in rows]
    if sys.stdout.isatty():
        _draw(columns, cells)
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in (columns, *cells):
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(padded).rstrip())


def _draw(columns: Sequence[str], cells: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Console().print(table)


def say(text: str) -> None:
    """Print a line on standard error."""
    print(printable(" ".join(text.split())), file=sys.stderr)


@contextmanager
def working(text: str) -> Generator[None]:
    """Show on a terminal that something long is being done, and how far it has come."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    from lamina.progress import listening

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(24))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(printable(text), total=None)

        def show(work: str, done: int, total: int) -> None:
            said = f"{printable(text)}: {work}, {done} of {total}"
            progress.update(task, description=said, completed=done, total=total)

        with listening(show):
            yield


def printable(text: str) -> str:
    """Escape what could steer a terminal: names in files are not to be trusted."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def for_terminal(text: str) -> str:
    """Escape what could steer a terminal in text of several lines; a file gets it as it is."""
    if not sys.stdout.isatty():
        return text
    steering = (c for c in text if c not in "\n\t" and category(c) == "Cc")
    return text.translate({ord(c): printable(c) for c in steering})


def first_line(text: str) -> str:
    """Return the beginning of a text, short enough for a heading."""
    return printable(shorten(text, _HEADING, placeholder="…"))


def megabytes(size: int) -> str:
    """Return a number of bytes in MB (10**6 bytes) with one decimal."""
    return f"{size / 1e6:.1f} MB"


def first_sentence(documentation: str | None) -> str:
    """Return the first line of a docstring."""
    return (documentation or "").strip().partition("\n")[0]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in cast(Sequence[Any], value)]
    return value
