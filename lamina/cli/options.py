"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from lamina.errors import InputError

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model file or folder, a dumped .mlir stage, a compiled .lamina file, or the name "
        "of a fetched model.",
    ),
]

TargetOption = Annotated[
    str,
    typer.Option(
        "--target", metavar="NAME", help="Where to run, maybe with options: 'cpu{features=avx2}'."
    ),
]

ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        min=1,
        show_default="the CPUs this process may use",
        help="How many threads run the model.",
    ),
]

DumpOption = Annotated[
    Path | None,
    typer.Option(
        "--dump-ir",
        metavar="DIR",
        show_default=False,
        help="Write every stage of compilation into this folder, one numbered file each.",
    ),
]

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of text for people.")
]

DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error instead of a sentence.")
]


def read_size(text: str) -> tuple[str, int]:
    """Return the extent that `NAME=N` of an option `--dim` says."""
    name, _, value = text.partition("=")
    if not name or not value.isdecimal():
        raise InputError(f"--dim {text}: expected NAME=N")
    return name, int(value)
