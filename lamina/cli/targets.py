"""`lamina targets`: where a model can run."""

from lamina.cli.options import DebugOption, JsonOption
from lamina.cli.output import emit_json, emit_table


def targets(json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the targets and who provides each; none is loaded."""
    from lamina.plugins import manager

    rows = [
        {"name": offer.name, "provider": offer.owner}
        for offer in sorted(manager.offers("register_targets").values(), key=lambda o: o.name)
    ]
    if json:
        emit_json({"targets": rows})
    else:
        emit_table(("target", "provider"), ((row["name"], row["provider"]) for row in rows))
