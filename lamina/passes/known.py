"""What passes have to know of plugins, told from above: decompositions, tile rules, insertions.

Passes cannot ask the plugin manager, which is above them; it tells them here how to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.ir import Operation
    from xdsl.passes import ModulePass
    from xdsl.pattern_rewriter import RewritePattern

Decompositions = Mapping["type[Operation]", Callable[[], "RewritePattern"]]
TileRules = Mapping["type[Operation]", Callable[..., Any]]
Insertions = Mapping[str, "Sequence[ModulePass]"]


@dataclass
class Known:
    """How to get what spells each composite, what computes a tile of each operation, and the
    passes that are put at each extension point of the default pipelines.
    """

    decompositions: Callable[[], Decompositions]
    tile_rules: Callable[[], TileRules]
    insertions: Callable[[], Insertions]


def _nobody() -> Any:
    raise RuntimeError("import lamina.plugins.manager first: it knows the plugins")


KNOWN = Known(decompositions=_nobody, tile_rules=_nobody, insertions=_nobody)
"""Filled by `lamina.plugins.manager` when it is imported."""
