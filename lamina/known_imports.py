"""Which models gave a graph before, so that reading one again need not make it to find faults."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path

from lamina import knobs
from lamina.atomic_file import write_whole
from lamina.frontend.model import Model
from lamina.plugins import manager
from lamina.targets.artifact_store import artifact_key


def check_import(model: Model) -> None:
    """Make the graph of a model, unless this version made it before without a warning.

    Raises `FormatError` or `UnsupportedError` for a file that gives none.
    """
    mark = _mark(model)
    if mark is not None and mark.exists():
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _ = model.module
    for each in said:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    if mark is not None and not said:
        with suppress(OSError):
            mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(mark, [b""])


def _mark(model: Model) -> Path | None:
    """Return the file that says so, None if nothing is to be kept."""
    header, plugins = model.header, manager.stamp()
    if header is None or plugins is None or (folder := knobs.kept_dir()) is None:
        return None
    return folder / "imports" / artifact_key(header, "", "", plugins)
