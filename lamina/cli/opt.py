"""`lamina opt`: run passes over text."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.options import DebugOption

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


@dataclass
class Observer:
    """What to do after each pass: print the module, verify it, time the pass."""

    print_all: bool
    print_changed: bool
    verify: bool
    times: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    _text: str = ""
    _start: float = 0.0

    def __call__(
        self, last: "ModulePass | None", module: "ModuleOp", following: "ModulePass | None"
    ) -> None:
        """Look at `module` between two passes, as `PassPipeline` calls it."""
        if last is not None:
            self.times.append((last.name, perf_counter() - self._start))
        if last is not None and self.verify:
            from lamina.dialects.text import verify_module

            verify_module(module, last.name)
        if self.print_all or self.print_changed:
            self._print(last, str(module))
        self._start = perf_counter()

    def _print(self, last: "ModulePass | None", text: str) -> None:
        if last is not None and (self.print_all or text != self._text):
            print(f"// -----// after {last.name} //----- //\n{text}\n", file=sys.stderr)
        self._text = text


def opt(
    *,
    file: Annotated[
        str,
        typer.Argument(
            metavar="[FILE]", show_default=False, help="A .mlir file; - reads the input."
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
    debug: DebugOption = False,
) -> None:
    """Run passes over a module's text and print the result; `lamina passes` lists them.

    What is printed on the way goes to standard error.

    Examples:

      lamina opt stage.mlir -p "decompose-math"

      lamina opt stage.mlir -p "fold-constants,decompose-math" --verify-each --time-passes
    """
    from lamina.compiler import run_passes
    from lamina.dialects.text import parse_module, read_module, verify_module
    from lamina.plugins import manager

    pipeline = manager.parse_pipeline(passes)
    ctx = manager.context()
    if file == "-":
        module = parse_module(ctx, sys.stdin.read(), "standard input")
    else:
        module = read_module(ctx, Path(file))
    observer = Observer(print_ir_after_all, print_ir_after_change, verify_each)
    run_passes(ctx, module, pipeline, [observer])
    verify_module(module, passes or "reading")
    result = _print(module, generic)
    if output is None:
        print(result)
    else:
        output.write_text(f"{result}\n", encoding="utf-8")
    if time_passes:
        _print_times(observer.times)


def _print(module: "ModuleOp", generic: bool) -> str:
    from io import StringIO

    from xdsl.printer import Printer

    text = StringIO()
    Printer(text, print_generic_format=generic).print_op(module)
    return text.getvalue()


def _print_times(times: list[tuple[str, float]]) -> None:
    total = sum(seconds for _, seconds in times)
    for name, seconds in [*times, ("total", total)]:
        print(f"{seconds * 1e3:10.2f} ms  {name}", file=sys.stderr)
