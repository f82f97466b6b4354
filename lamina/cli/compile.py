"""`lamina compile`: an artifact to carry."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from lamina.cli.options import (
    DebugOption,
    DumpOption,
    FallbackOption,
    JsonOption,
    ModelArgument,
    TargetOption,
    read_path,
    said_of,
    with_fallback,
)
from lamina.cli.output import emit_json, megabytes, working


def compile(
    model: ModelArgument,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE.lamina",
            parser=read_path,
            show_default=False,
            help="Write here.",
        ),
    ],
    target: TargetOption = "auto",
    fallback: FallbackOption = "host",
    weights: Annotated[
        bool,
        typer.Option(
            "--weights/--no-weights",
            help="With the weights, or with the names, sizes and hashes of their files instead.",
        ),
    ] = True,
    dump_ir: DumpOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compile a model into one file that runs without the model, here or on a machine like it.

    It can be given as MODEL to the commands that run models, and starts without compiling. It
    is machine code: run only files that you trust. What was compiled without weights needs the
    model's own files beside it.

    Examples:

      lamina compile smollm2 -o smollm2.lamina

      lamina generate smollm2.lamina -p "The capital of France is"

      lamina compile folder/ -o folder/small.lamina --no-weights --target "cpu{features=avx2}"
    """
    from lamina import compiler
    from lamina.frontend.fetch import resolve_model

    start = perf_counter()
    path = resolve_model(model)
    target = with_fallback(target, fallback)
    with working(f"Compiling {path.name}{said_of(target)}"):
        read = compiler.read(path, defer=True)
        compiler.compile_to_file(read, output, target, dump_ir, with_weights=weights)
    size, seconds = output.stat().st_size, perf_counter() - start
    if json:
        emit_json({"model": str(path), "path": str(output), "bytes": size, "seconds": seconds})
    else:
        print(f"{output}: {megabytes(size)}, {seconds:.2f} s")
