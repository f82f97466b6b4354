"""Which tables of converters there are, told from above: those of the box and of plugins.

Front ends cannot ask the plugin manager, which is above them; it tells them here how to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lamina.frontend.onnx.registry import Table


@dataclass
class Known:
    """How to get all tables of converters, those of plugins before that of the box."""

    tables: Callable[[], Sequence[Table]]


def _box() -> Sequence[Table]:
    from lamina.frontend.onnx.registry import CONVERTERS

    return [CONVERTERS]


KNOWN: Final = Known(tables=_box)
"""Filled by `lamina.plugins.manager` when it is imported."""
