"""`lamina ops`: the operations of every dialect, and what each means."""

from typing import Annotated, Any

import typer

from lamina.cli.options import DebugOption, JsonOption
from lamina.cli.output import emit_json, emit_table, first_sentence
from lamina.errors import InputError


def ops(
    dialect: Annotated[
        str | None,
        typer.Argument(metavar="[DIALECT]", show_default=False, help="Only this dialect."),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the operations: who provides each, and whether NumPy or simpler ones say its meaning.

    Examples:

      lamina ops

      lamina ops nn --json
    """
    from lamina.plugins import manager

    known = manager.offers("register_dialects")
    if dialect is not None and dialect not in known:
        raise InputError(manager.unknown("dialect", dialect, known))
    rows = [row for name in known if dialect in {None, name} for row in _rows(known[name])]
    if json:
        emit_json({"ops": rows})
        return
    columns = ("name", "numpy", "decomposes", "provider", "does")
    emit_table(columns, ([_shown(row[column]) for column in columns] for row in rows))


def _rows(offer: Any) -> list[dict[str, Any]]:
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
        for op in sorted(offer.value().operations, key=lambda op: op.name)
    ]


def _shown(cell: object) -> object:
    return {True: "yes", False: ""}.get(cell, cell) if isinstance(cell, bool) else cell
