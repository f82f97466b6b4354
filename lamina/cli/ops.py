"""`lamina ops`: the operations of every dialect, and what each means."""

from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from lamina.cli.options import DebugOption, JsonOption
from lamina.cli.output import emit_json, emit_table, first_sentence
from lamina.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.ir import Operation
    from xdsl.irdl import IRDLOperation

    from lamina.plugins.manager import Offer

_DERIVED: Final = frozenset({"operandSegmentSizes", "resultSegmentSizes"})
"""Properties that the text does not show."""


def ops(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            show_default=False,
            help="Only this dialect, or tell all of this operation.",
        ),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the operations: who provides each, and whether NumPy or simpler ones say its meaning.

    Examples:

      lamina ops

      lamina ops nn --json

      lamina ops nn.softmax
    """
    from lamina.plugins import manager

    known = manager.offers("register_dialects")
    dialect = (name or "").partition(".")[0]
    if name is not None and dialect not in known:
        raise InputError(manager.unknown("dialect", dialect, known))
    chosen = [known[dialect]] if name else list(known.values())
    if name is not None and "." in name:
        _show(_facts(name, chosen[0]), json)
        return
    rows = [row for offer in chosen for row in _rows(offer)]
    if json:
        emit_json({"ops": rows})
        return
    columns = ("name", "numpy", "decomposes", "provider", "does")
    emit_table(columns, ([_shown(row[column]) for column in columns] for row in rows))


def _operations(offer: "Offer") -> "Iterator[type[Operation]]":
    yield from sorted(offer.value().operations, key=lambda op: op.name)


def _rows(offer: "Offer") -> list[dict[str, Any]]:
    from lamina.plugins import manager

    numpy, simpler = manager.meanings(), manager.decompositions()
    return [
        {
            "name": op.name,
            "numpy": op in numpy,
            "decomposes": op in simpler,
            "provider": offer.owner,
            "does": first_sentence(op.__doc__),
        }
        for op in _operations(offer)
    ]


def _facts(name: str, offer: "Offer") -> dict[str, Any]:
    from lamina.plugins import manager

    known = {op.name: op for op in _operations(offer)}
    if name not in known:
        raise InputError(manager.unknown("operation", name, known))
    op = known[name]
    definition = cast("type[IRDLOperation]", op).get_irdl_definition()
    pattern = manager.decompositions().get(op)
    return {
        "name": name,
        "provider": offer.owner,
        "documentation": cleandoc(op.__doc__ or ""),
        "operands": [operand for operand, _ in definition.operands],
        "results": [result for result, _ in definition.results],
        "attributes": sorted({*definition.properties, *definition.attributes} - _DERIVED),
        "syntax": definition.assembly_format,
        "declared": f"{op.__module__}:{op.__name__}",
        "numpy": _place(manager.meanings().get(op)),
        "decomposition": _place(type(pattern()) if pattern else None),
    }


def _place(found: Any) -> str | None:
    if found is None:
        return None
    return f"{found.__module__}:{found.__qualname__.partition('.<locals>')[0]}"


def _show(facts: dict[str, Any], json: bool) -> None:
    if json:
        emit_json(facts)
        return
    print(f"{facts['name']}, by {facts['provider']}\n\n{facts['documentation']}\n")
    for key in ("operands", "results", "attributes"):
        if facts[key]:
            print(f"{key}: {', '.join(facts[key])}")
    for key in ("syntax", "declared", "numpy", "decomposition"):
        if facts[key]:
            print(f"{key}: {facts[key]}")


def _shown(cell: object) -> object:
    return {True: "yes", False: ""}.get(cell, cell) if isinstance(cell, bool) else cell
