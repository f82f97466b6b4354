"""`lamina opt`: run passes over text."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli.options import DebugOption, JsonOption, read_path
from lamina.cli.output import emit_json, say
from lamina.cli.pass_observer import PassObserver
from lamina.writing import writing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


def opt(
    *,
    model: Annotated[
        str,
        typer.Argument(
            metavar="[MODEL]",
            show_default=False,
            help="A .mlir file, or a model whose graph is read; - or nothing reads the input.",
        ),
    ] = "-",
    passes: Annotated[
        str,
        typer.Option("-p", "--passes", metavar="PIPELINE", help="Passes, as in 'a,b{x=1}'."),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            parser=read_path,
            show_default=False,
            help="Write here.",
        ),
    ] = None,
    print_ir_after_all: Annotated[
        bool, typer.Option("--print-ir-after-all", help="Print the module after every pass.")
    ] = False,
    print_ir_after_change: Annotated[
        bool, typer.Option("--print-ir-after-change", help="The same, where the pass changed it.")
    ] = False,
    verify_each: Annotated[
        bool, typer.Option("--verify-each", help="Verify the module after every pass.")
    ] = False,
    time_passes: Annotated[
        bool, typer.Option("--time-passes", help="Print how long every pass took.")
    ] = False,
    generic: Annotated[
        bool, typer.Option("--print-op-generic", help="Print operations in the generic form.")
    ] = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run passes over a module's text and print the result; `lamina passes` lists them.

    What is printed on the way goes to standard error. A dumped stage still knows which passes it
    has to go through: those that are run here in that order are taken off. Without passes, what
    is kept of a failed compilation is run again: the pass that failed and the others, and the
    target's emission.

    Examples:

      lamina opt stages/000-import.mlir -p fold-duplicates,fuse-attention --print-ir-after-change

      lamina opt smollm2 -p "fuse-attention{rows=8}" -o stage.mlir

      lamina opt module.mlir -p decompose-math --verify-each --time-passes
    """
    from lamina.compiler import run_passes
    from lamina.dialects.text import verify_module
    from lamina.plugins import manager

    failed = None if passes else _failed(model)
    pipeline = manager.parse_pipeline(failed["rest"] if failed else passes)
    ctx = manager.context()
    module, again = _read(ctx, model)
    target = failed["target"] if failed else ""
    observer = PassObserver(print_ir_after_all, print_ir_after_change, verify_each)
    run_passes(ctx, module, pipeline, [observer], again=again, target=target)
    verify_module(module, passes or "reading")
    if target:
        _emit(ctx, module, target, pipeline)
    _take_off(module, pipeline)
    result = _text(module, generic)
    if output is not None:
        with writing(output):
            output.write_text(f"{result}\n", encoding="utf-8")
    if json:
        emit_json({"passes": observer.times(), "module": None if output else result})
        return
    if output is None:
        print(result)
    if time_passes:
        observer.print_times()


def _failed(model: str) -> "Mapping[str, Any] | None":
    from lamina.failures import read_bundle

    return read_bundle(Path(model)) if model.endswith(".mlir") else None


def _read(ctx: "Context", model: str) -> "tuple[ModuleOp, Callable[[], ModuleOp]]":
    """Return the module, and a way to have it once more."""
    from lamina.dialects.text import parse_module, read_module

    if model == "-":
        text = sys.stdin.read()
        return parse_module(ctx, text, "standard input"), lambda: parse_module(ctx, text, "-")
    if model.endswith(".mlir"):
        return read_module(ctx, Path(model)), lambda: read_module(ctx, Path(model))
    import lamina
    from lamina.frontend.fetch import resolve_model

    path = resolve_model(model)
    return lamina.read(path).module, lambda: lamina.read(path).module


def _emit(
    ctx: "Context", module: "ModuleOp", target: str, pipeline: "tuple[ModulePass, ...]"
) -> None:
    """Have the target emit the module, for a failed compilation only; the code is let go."""
    from lamina.compiler import emit, resolve_target
    from lamina.targets.acceptance import check_accepted

    chosen = resolve_target(target)
    check_accepted(module, chosen)
    emit(ctx, module, chosen, pipeline)
    say(f"the target {target} emits it now")


def _take_off(module: "ModuleOp", passes: "Sequence[ModulePass]") -> None:
    """Take the passes that were run off the head of those that a stage has to go through."""
    from xdsl.dialects.builtin import StringAttr

    from lamina.plugins import manager
    from lamina.targets.dump import PENDING, pending

    stage = pending(module)
    if stage is None:
        return
    rest = [str(each) for each in manager.parse_pipeline(stage[1])]
    for each in passes:
        if rest and rest[0] == str(each):
            del rest[0]
    module.attributes[PENDING] = StringAttr(",".join(rest))


def _text(module: "ModuleOp", generic: bool) -> str:
    from io import StringIO

    from xdsl.printer import Printer

    text = StringIO()
    Printer(text, print_generic_format=generic).print_op(module)
    return text.getvalue()
