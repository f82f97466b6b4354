"""`lamina plugins`: what is loaded, and what each adds."""

from typing import Final

from lamina.cli.options import DebugOption, JsonOption
from lamina.cli.output import emit_json, emit_table

_MANY: Final = 40


def plugins(json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the plugins, what is in the box among them, and what each adds.

    LAMINA_PLUGINS=off leaves only what is in the box.

    Examples:

      lamina plugins

      lamina plugins --json
    """
    from lamina.plugins import manager

    added = {name: _adds(name) for name, _ in manager.manager().list_name_plugin()}
    if json:
        emit_json({"plugins": [{"name": name, "adds": kinds} for name, kinds in added.items()]})
        return
    rows = [
        (name, kind, ", ".join(names) if len(names) <= _MANY else f"{len(names)} operations")
        for name, kinds in added.items()
        for kind, names in kinds.items()
    ]
    emit_table(("plugin", "adds", "names"), rows)


def _adds(owner: str) -> dict[str, list[str]]:
    from lamina.plugins import manager

    added: dict[str, list[str]] = {}
    for hook in manager.HOOKS:
        names = sorted(o.name for o in manager.offers(hook).values() if o.owner == owner)
        if names:
            added[hook.removeprefix("register_")] = names
    return added
