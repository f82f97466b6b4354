"""`lamina inspect`: what is in a model file, and what it becomes."""

from typing import Annotated

import typer

from lamina.cli.contents import contents, print_contents
from lamina.cli.options import (
    DebugOption,
    DumpOption,
    FallbackOption,
    JsonOption,
    ModelArgument,
    TargetOption,
    read_size,
    with_fallback,
)
from lamina.cli.output import emit_json, working
from lamina.cli.planned import plan_facts, print_plan


def inspect(
    model: ModelArgument,
    weights: Annotated[bool, typer.Option("--weights", help="List every weight.")] = False,
    target: TargetOption = "auto",
    fallback: FallbackOption = "host",
    dim: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N",
            show_default="1, 64 and 512",
            help="The value of a symbolic extent, to show memory for it; repeatable.",
        ),
    ] = None,
    dump_ir: DumpOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what is in a model, the operations it became, and its plan on a target.

    The plan is its launches and kernels, each with the range of extents that it is for, and its
    memory: the arena's bytes beside the sum of all intermediates and the largest set of them that
    is live at one time.

    Examples:

      lamina inspect model.gguf

      lamina inspect folder/ --weights --json

      lamina inspect smollm2 --target "cpu{features=avx2}" --dim T=100
    """
    import lamina
    from lamina.frontend.fetch import resolve_model

    path = resolve_model(model)
    target = with_fallback(target, fallback)
    sizes = dict(read_size(text) for text in dim or ())
    with working(f"Reading {path.name}"):
        read = lamina.read(path)
        facts = contents(read, weights or json)
        plan = {} if "compiled" in facts else plan_facts(read, target, sizes, dump_ir)
    if json:
        emit_json({**facts, "model": str(path), "plan": plan})
        return
    print_contents(facts | {"model": str(path)})
    if plan:
        print_plan(plan)
