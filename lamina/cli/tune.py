"""`lamina tune`: find faster schedules for a model by measuring, and keep them."""

import sys
from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lamina.cli.interrupt import INTERRUPTED
from lamina.cli.options import (
    DebugOption,
    JsonOption,
    ModelArgument,
    TargetOption,
    ThreadsOption,
    said_of,
)
from lamina.cli.output import emit_json, say, working
from lamina.cli.subject import Asked, DimsOption, prompt_tokens_option, subject_of, tokens_option
from lamina.cli.tune_report import candidates_json, print_candidates, print_tuning, tuning_json

if TYPE_CHECKING:
    from lamina.frontend.model import Model
    from lamina.measure.subjects import Subject
    from lamina.measure.tuning import Tuning
    from lamina.measure.workbench import Workbench
    from lamina.passes.schedules.database import Database
    from lamina.targets.base import Executable

_PROMPT_TOKENS: Final = 128
_TOKENS: Final = 16


def tune(
    model: ModelArgument,
    kernel: Annotated[
        str,
        typer.Option(
            metavar="GLOB", help="Only classes that this describes, or kernels of this name."
        ),
    ] = "*",
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            min=0.0,
            show_default=False,
            help="Begin no round after this time; by default everything is tried.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be tried, and measure nothing.")
    ] = False,
    prompt_tokens: Annotated[int | None, prompt_tokens_option(_PROMPT_TOKENS)] = None,
    tokens: Annotated[int | None, tokens_option(_TOKENS)] = None,
    dim: DimsOption = None,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, help="Runs of a round, of which the medians count.")
    ] = 5,
    target: TargetOption = "auto",
    threads: ThreadsOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Measure other schedules for a model's kernels, and keep those that are faster.

    A round compiles the model with one candidate for every class of kernels, and runs it in turns
    with the default. What saves 3 % there, and once more in a last round, is kept for this machine
    in the cache folder: every later compilation uses it. Results stay the same, bit for bit.

    Ctrl-C keeps what was confirmed so far.

    Examples:

      lamina tune smollm2

      lamina tune smollm2 --dry-run

      lamina tune model.gguf --seconds 60 --threads 2

      lamina tune folder/ --dim B=16 --dim L=64 --kernel "linear*"
    """
    from lamina import compiler
    from lamina.frontend.fetch import resolve_model
    from lamina.measure.schedule_store import writable_store_path
    from lamina.measure.tuning import Tuning
    from lamina.measure.workbench import Workbench
    from lamina.targets.spec import target_spec

    path = resolve_model(model)
    read = compiler.read(path)
    with working(f"Preparing {path.name}{said_of(target)}"):
        bench = Workbench(read, target, threads)
        search = Tuning(bench, kernel)
    about = {"model": str(path), "target": target_spec(bench.target)}
    if dry_run:
        facts = candidates_json(about, bench, search)
        (emit_json if json else print_candidates)(facts)
        return
    where, began = writable_store_path(bench.machine), monotonic()
    asked = Asked(*_sizes(read), prompt_tokens, tokens, dim or ())
    stopped = False
    try:
        with working(f"Tuning {path.name}"):
            _search(search, bench, read, asked, repeat, seconds)
    except KeyboardInterrupt:
        stopped = True
    took = {"seconds": monotonic() - began, "interrupted": stopped, "file": str(where)}
    facts = tuning_json(about | took, bench, search)
    (emit_json if json else print_tuning)(facts)
    if stopped:
        kept = facts["kept"]
        said = f"what was confirmed so far is kept ({kept} classes)" if kept else "nothing is kept"
        say(f"interrupted: {said}")
        sys.exit(INTERRUPTED)


def _search(
    search: "Tuning",
    bench: "Workbench",
    model: "Model",
    asked: Asked,
    repeat: int,
    seconds: float | None,
) -> None:
    from lamina.measure.schedule_store import keep_schedules

    def subject(executable: "Executable") -> "Subject":
        return subject_of(model, executable, asked)[0]

    def keep(found: "Database", dropped: Iterable[str]) -> None:
        keep_schedules(bench.machine, found, dropped)

    search.run(subject, keep, repeat=repeat, seconds=seconds)


def _sizes(model: "Model") -> tuple[int, int]:
    """Return the tokens of a prompt and after it that are run where nothing says how many."""
    context = model.config.context_length if model.config is not None else None
    room = _PROMPT_TOKENS + _TOKENS if context is None else context
    more = min(_TOKENS, max(1, room // 4))
    return max(1, min(_PROMPT_TOKENS, room - more)), more
