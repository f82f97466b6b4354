"""`lamina inspect`: what is in a model file."""

from collections import Counter
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli.options import (
    DebugOption,
    JsonOption,
    ModelArgument,
    TargetOption,
    read_size,
)
from lamina.cli.output import emit_json, emit_table, megabytes, working
from lamina.cli.planned import plan_facts, print_plan

if TYPE_CHECKING:
    from lamina.frontend.model import Model


def inspect(
    model: ModelArgument,
    weights: Annotated[bool, typer.Option("--weights", help="List every weight.")] = False,
    target: TargetOption = "cpu",
    dim: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N",
            show_default="1, 64 and 512",
            help="The value of a symbolic extent, to show memory for it; repeatable.",
        ),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what is in a model, the operations it became, and its plan on a target.

    The plan's memory is the arena's bytes beside the sum of all intermediates and the largest set
    of them that is live at one time.

    Examples:

      lamina inspect model.gguf

      lamina inspect folder/ --weights
    """
    import lamina
    from lamina.frontend.fetch import resolve_model

    path = resolve_model(model)
    sizes = dict(read_size(text) for text in dim or ())
    with working(f"Reading {path.name}"):
        read = lamina.read(path)
        plan = plan_facts(read, target, sizes)
    facts = {
        "model": str(path),
        "config": _config(read),
        "weights": _weights(read, weights or json),
        "functions": _functions(read),
        "plan": plan,
    }
    if json:
        emit_json(facts)
    else:
        _print(facts)


def _config(model: "Model") -> dict[str, Any]:
    if model.config is None:
        return {}
    said = {f.name: getattr(model.config, f.name) for f in fields(model.config)}
    del said["metadata"]
    return {
        name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in said.items()
        if value is not None
    }


def _weights(model: "Model", each: bool) -> dict[str, Any]:
    count, size = Counter[str](), Counter[str]()
    for weight in model.weights.values():
        count[weight.dtype] += 1
        size[weight.dtype] += weight.nbytes
    found: dict[str, Any] = {
        "count": count.total(),
        "bytes": size.total(),
        "by_dtype": [{"dtype": d, "count": count[d], "bytes": size[d]} for d in sorted(count)],
    }
    if each:
        found["each"] = [
            {"name": w.name, "dtype": w.dtype, "shape": list(w.shape), "bytes": w.nbytes}
            for w in model.weights.values()
        ]
    return found


def _functions(model: "Model") -> list[dict[str, Any]]:
    from xdsl.dialects.func import FuncOp

    return [
        {
            "name": op.sym_name.data,
            "inputs": [str(each) for each in op.function_type.inputs],
            "outputs": [str(each) for each in op.function_type.outputs],
            "ops": dict(Counter(inner.name for inner in op.body.walk()).most_common()),
        }
        for op in model.module.walk()
        if isinstance(op, FuncOp)
    ]


def _print(facts: dict[str, Any]) -> None:
    weights = facts["weights"]
    print(facts["model"], end="\n\n")
    if facts["config"]:
        emit_table(("setting", "value"), facts["config"].items())
        print()
    print(f"{weights['count']} weights, {megabytes(weights['bytes'])}")
    emit_table(("dtype", "count", "bytes"), (list(row.values()) for row in weights["by_dtype"]))
    if "each" in weights:
        print()
        emit_table(
            ("weight", "dtype", "shape", "bytes"), (list(row.values()) for row in weights["each"])
        )
    for function in facts["functions"]:
        print(f"\n@{function['name']}: {sum(function['ops'].values())} operations")
        emit_table(("operation", "count"), function["ops"].items())
    print_plan(facts["plan"])
