"""The `lamina` command: its subcommands, and the one place where errors become exit codes."""

import os
import sys
import warnings
from collections.abc import Callable
from errno import ENOSPC, EPIPE
from functools import wraps
from typing import Annotated, Any, Final

import typer

import lamina
from lamina.cli.bench import bench
from lamina.cli.check import check
from lamina.cli.compile import compile
from lamina.cli.fetch import fetch
from lamina.cli.generate import generate
from lamina.cli.inspect import inspect
from lamina.cli.interrupt import INTERRUPTED
from lamina.cli.ops import ops
from lamina.cli.opt import opt
from lamina.cli.output import say
from lamina.cli.passes import passes
from lamina.cli.plugins import plugins
from lamina.cli.run import run
from lamina.cli.targets import targets
from lamina.cli.tune import tune
from lamina.errors import LaminaError

COMMANDS: Final[tuple[Callable[..., None], ...]] = (
    generate,
    run,
    compile,
    check,
    inspect,
    bench,
    tune,
    opt,
    fetch,
    targets,
    passes,
    ops,
    plugins,
)
"""The subcommands in the order of `lamina --help`; each is named after its function."""

app: Final = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"lamina {lamina.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Compile models to native code, through IR that can be read, run and edited.

    Results go to standard output, all else to standard error.

    The exit code is 0, 1 for an error said in one sentence, or 2 for wrong usage.

    Examples:

      lamina fetch smollm2

      lamina generate -p "The capital of France is"

      lamina COMMAND --help
    """


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    # Typer's releases differ in what an interrupt ends with.
    @wraps(command)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    return call


for _command in COMMANDS:
    app.command(name=_command.__name__)(_interruptible(_command))


def _say_warning(message: Warning | str, *where: object) -> None:
    say(f"warning: {message}")


def _run(arguments: list[str]) -> None:
    try:
        app(args=arguments, prog_name="lamina")
    finally:
        # What the interpreter writes at its own end fails without a sentence.
        sys.stdout.flush()


def _say_system_error(error: OSError) -> None:
    # Who writes a file names it, so that only the output is left.
    stuck = error.errno in (ENOSPC, EPIPE)
    where = "standard output" if stuck else error.filename
    if stuck:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    if error.errno != EPIPE:
        say(f"error: {f'{where}: ' if where else ''}{error.strerror or error}")


def execute(arguments: list[str]) -> None:
    """Run the command line on `arguments`, and exit with its code."""
    if "--debug" in arguments:
        app(args=arguments, prog_name="lamina")
        return
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_warning
            _run(arguments)
    except LaminaError as error:
        say(f"error: {error}")
    except OSError as error:
        _say_system_error(error)
    except MemoryError:
        say("error: there is not enough memory")
    except Exception as error:
        say(f"internal error: {type(error).__name__}: {error} (--debug shows the traceback)")
    sys.exit(1)
