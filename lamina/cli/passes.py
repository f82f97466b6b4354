"""`lamina passes`: what a pipeline may name."""

from lamina.cli.options import DebugOption, JsonOption
from lamina.cli.output import emit_json, emit_table, first_sentence


def passes(json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the passes: what holds after each, its options, and who provides it."""
    from xdsl.passes import get_pass_option_infos

    from lamina.plugins import manager

    rows: list[dict[str, str]] = []
    for offer in sorted(manager.offers("register_passes").values(), key=lambda o: o.name):
        each = offer.value()
        options = (
            f"{o.name.replace('_', '-')}: {o.expected_type}" for o in get_pass_option_infos(each)
        )
        rows.append(
            {
                "name": offer.name,
                "options": ", ".join(options),
                "provider": offer.owner,
                "does": first_sentence(each.__doc__),
            }
        )
    if json:
        emit_json({"passes": rows})
    else:
        emit_table(("pass", "options", "provider", "does"), (list(row.values()) for row in rows))
