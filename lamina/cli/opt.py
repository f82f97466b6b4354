"""`lamina opt`: run passes over text."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.options import DebugOption, JsonOption
from lamina.cli.output import emit_json
from lamina.cli.pass_observer import PassObserver

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        typer.Option("-o", "--output", metavar="FILE", show_default=False, help="Write here."),
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
    has to go through: those that are run here in that order are taken off.

    Examples:

      lamina opt stages/000-import.mlir -p fold-duplicates,fuse-attention --print-ir-after-change

      lamina opt smollm2 -p "fuse-attention{rows=8}" -o stage.mlir

      lamina opt module.mlir -p decompose-math --verify-each --time-passes
    """
    from lamina.compiler import run_passes
    from lamina.dialects.text import verify_module
    from lamina.plugins import manager

    pipeline = manager.parse_pipeline(passes)
    ctx = manager.context()
    module = _read(ctx, model)
    observer = PassObserver(print_ir_after_all, print_ir_after_change, verify_each)
    run_passes(ctx, module, pipeline, [observer])
    verify_module(module, passes or "reading")
    _take_off(module, pipeline)
    result = _text(module, generic)
    if output is not None:
        output.write_text(f"{result}\n", encoding="utf-8")
    if json:
        emit_json({"passes": observer.times(), "module": None if output else result})
        return
    if output is None:
        print(result)
    if time_passes:
        observer.print_times()


def _read(ctx: "Context", model: str) -> "ModuleOp":
    from lamina.dialects.text import parse_module, read_module

    if model == "-":
        return parse_module(ctx, sys.stdin.read(), "standard input")
    if model.endswith(".mlir"):
        return read_module(ctx, Path(model))
    import lamina
    from lamina.frontend.fetch import resolve_model

    return lamina.read(resolve_model(model)).module


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
