"""`lamina targets`: where a model can run."""

from dataclasses import fields
from inspect import cleandoc
from typing import Annotated, Any

import typer

from lamina.cli.options import DebugOption, JsonOption
from lamina.cli.output import emit_json, emit_table


def targets(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", show_default=False, help="Tell all of this one."),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the targets and who provides each; none is loaded.

    With a name: what the target is, its options, its passes in order, and what it can run.

    Examples:

      lamina targets

      lamina targets cpu

      lamina targets "cpu{activations=f32}" --json
    """
    from lamina.plugins import manager

    if name is not None:
        _show(name, json)
        return
    offers = sorted(manager.offers("register_targets").values(), key=lambda o: o.name)
    if json:
        emit_json({"targets": [{"name": o.name, "provider": o.owner} for o in offers]})
    else:
        emit_table(("target", "provider"), ((o.name, o.owner) for o in offers))


def _show(spec: str, json: bool) -> None:
    facts = _facts(spec)
    if json:
        emit_json(facts)
        return
    print(f"{facts['spec']}, by {facts['provider']}\n\n{facts['does']}\n")
    rows = [list(option.values()) for option in facts["options"]]
    if rows:
        emit_table(("option", "type", "value", "default"), rows)
        print()
    print("passes:" if facts["passes"] else "no passes: a module runs as it is")
    for each in facts["passes"]:
        print(f"  {each}")
    print(f"\nruns {len(facts['accepts'])} operations (--json lists them)")


def _facts(spec: str) -> dict[str, Any]:
    from lamina.compiler import resolve_target
    from lamina.plugins import manager
    from lamina.targets.spec import target_spec

    target = resolve_target(spec)
    return {
        "name": target.name,
        "spec": target_spec(target),
        "provider": manager.offers("register_targets")[target.name].owner,
        "does": cleandoc(type(target).__doc__ or ""),
        "options": [
            {
                "name": field.name,
                "type": str(field.type),
                "value": getattr(target, field.name),
                "default": field.default,
            }
            for field in fields(target)
        ],
        "passes": [str(each) for each in target.passes()],
        "accepts": sorted(target.accepts),
    }
