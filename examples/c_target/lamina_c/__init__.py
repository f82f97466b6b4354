"""A target that prints C: the plugin that an entry point of the group `lamina` names."""

from collections.abc import Callable, Mapping
from typing import Any

from lamina.plugins import hookimpl, lazy


@hookimpl
def register_targets() -> Mapping[str, Callable[[], Any]]:
    """Offer the target `c`."""
    return {"c": lazy("lamina_c.target:CTarget")}
