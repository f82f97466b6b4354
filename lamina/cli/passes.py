"""`lamina passes`: what a pipeline may name."""

from inspect import cleandoc, getsourcefile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli.options import DebugOption, JsonOption
from lamina.cli.output import emit_json, emit_table, first_sentence
from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.plugins.manager import Offer


def passes(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", show_default=False, help="Tell all of this one."),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the passes: what holds after each, its options, and who provides it.

    Examples:

      lamina passes

      lamina passes fuse-attention

      lamina passes --json
    """
    from lamina.plugins import manager

    known = manager.offers("register_passes")
    if name is not None and name not in known:
        raise InputError(manager.unknown("pass", name, known))
    if name is not None:
        _show(_facts(known[name]), json)
        return
    rows = [_facts(known[each]) for each in sorted(known)]
    if json:
        emit_json({"passes": rows})
        return
    columns = ("pass", "options", "provider", "does")
    emit_table(columns, ([r["name"], _options(r), r["provider"], r["does"]] for r in rows))


def _facts(offer: "Offer") -> dict[str, Any]:
    from xdsl.passes import get_pass_option_infos

    each = offer.value()
    return {
        "name": offer.name,
        "options": [
            {
                "name": option.name.replace("_", "-"),
                "type": option.expected_type.strip("'"),
                "default": option.default_value,
            }
            for option in get_pass_option_infos(each)
        ],
        "provider": offer.owner,
        "does": first_sentence(each.__doc__),
        "documentation": cleandoc(each.__doc__ or ""),
        "file": getsourcefile(each),
    }


def _options(facts: dict[str, Any]) -> str:
    return " ".join(f"{option['name']}={option['default']}" for option in facts["options"])


def _show(facts: dict[str, Any], json: bool) -> None:
    if json:
        emit_json(facts)
        return
    print(f"{facts['name']}, by {facts['provider']}, in {facts['file']}\n")
    print(facts["documentation"])
    if facts["options"]:
        print()
        rows = [list(option.values()) for option in facts["options"]]
        emit_table(("option", "type", "default"), rows)
