"""Arguments and options that several commands share."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from lamina.errors import InputError


def read_path(text: str) -> Path:
    """Return the path that an option says; wrong usage if it says none."""
    if not text:
        raise typer.BadParameter("expected the name of a file or folder, got an empty one")
    return Path(text)


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
        "--target",
        metavar="NAME",
        help="Where to run, maybe with options: 'cpu{features=avx2}'. auto: where a stage or a "
        "compiled file is for, or else on the CPU.",
    ),
]

_FALLBACKS: Final = ("host", "error")

FallbackOption = Annotated[
    str,
    typer.Option(
        "--fallback",
        metavar="host|error",
        help="What becomes of what a GPU target has no kernel for: it runs on the host, by copies "
        "there and back, or is an error that lists it.",
    ),
]


def with_fallback(target: str, fallback: str) -> str:
    """Return the spec of a target with its option `fallback`, which unsaid is `host`."""
    if fallback not in _FALLBACKS:
        raise InputError(f"--fallback {fallback}: expected {' or '.join(_FALLBACKS)}")
    if fallback == _FALLBACKS[0]:
        return target
    from lamina.targets.spec import join_options

    return join_options(target, f"{{fallback={fallback}}}")


def said_of(target: str) -> str:
    """Return what a message about a model says of its target, nothing of one that is not named."""
    return "" if target == "auto" else f" for {target}"


ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        min=1,
        show_default="the CPUs this process may use",
        help="How many threads run the model, one a CPU at most.",
    ),
]

DumpOption = Annotated[
    Path | None,
    typer.Option(
        "--dump-ir",
        metavar="DIR",
        parser=read_path,
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


_MOST_DIGITS: Final = 18


def read_size(text: str) -> tuple[str, int]:
    """Return the extent that `NAME=N` of an option `--dim` says."""
    name, _, value = text.partition("=")
    if not name or not value.isdecimal():
        raise InputError(f"--dim {text}: expected NAME=N")
    if len(value) > _MOST_DIGITS:
        raise InputError(f"--dim {name}: expected at most {_MOST_DIGITS} digits, got {len(value)}")
    return name, int(value)


def check_sizes(sizes: Mapping[str, int], known: Iterable[str]) -> None:
    """Raise `InputError` for a `--dim` that says the value of an extent that there is not."""
    names = sorted(known)
    for name in sizes:
        if name not in names:
            listed = f"there are {', '.join(names)}" if names else "it has none"
            raise InputError(f"--dim {name}: the model has no such symbolic extent ({listed})")
