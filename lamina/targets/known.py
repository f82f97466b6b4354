"""What targets have to know of plugins, told from above: meanings, and a context of dialects.

Targets cannot ask the plugin manager, which is above them; it tells them here how to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.ir import Operation

Meanings = Mapping["type[Operation]", Callable[..., Any]]


@dataclass
class Known:
    """How to get what each operation computes in NumPy, and a context that reads any module."""

    meanings: Callable[[], Meanings]
    context: Callable[[], Context]


def _nobody() -> Any:
    raise RuntimeError("import lamina.plugins.manager first: it knows the operations")


KNOWN = Known(meanings=_nobody, context=_nobody)
"""Filled by `lamina.plugins.manager` when it is imported."""
