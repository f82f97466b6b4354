"""`--profile`: write what each thread or device does, and when."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.options import read_path
from lamina.errors import InputError
from lamina.writing import writing

if TYPE_CHECKING:
    from lamina.targets.base import Executable

ProfileOption = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        parser=read_path,
        show_default=False,
        help="Write what each thread or device did, and when, for https://ui.perfetto.dev.",
    ),
]


def check_profile(path: Path | None) -> Path | None:
    """Return where a profile is to be written, links followed; `InputError` if it cannot be."""
    if path is None:
        return None
    place = path.resolve()
    if not place.parent.is_dir():
        raise InputError(f"--profile {path}: there is no folder {place.parent}")
    if place.exists() and not place.is_file():
        raise InputError(f"--profile {path}: it is no file: expected the name of one to write")
    if not os.access(place.parent, os.W_OK):
        raise InputError(f"--profile {path}: the folder {place.parent} cannot be written to")
    return place


@contextmanager
def profiled(executable: "Executable", path: Path | None) -> Generator[None]:
    """Write to `path`, if there is one, the steps that `executable` runs in the block.

    `UnsupportedError` if it keeps no timeline, `InputError` if the file cannot be written.
    """
    if path is None:
        yield
        return
    from lamina.targets.timeline import trace

    with trace(executable) as timeline:
        yield
    with writing(path):
        timeline.write(path)
