"""Conformance cases by topic."""

from __future__ import annotations

from collections.abc import Iterator

from lamina.testing.case import Case
from lamina.testing.suites import (
    aliases,
    elementwise,
    fusions,
    models,
    products,
    quantised,
    ragged,
    reductions,
    shapes,
)

TOPICS = (
    elementwise,
    shapes,
    reductions,
    products,
    quantised,
    ragged,
    fusions,
    aliases,
    models,
)
"""Every module of cases."""


def cases() -> Iterator[Case]:
    """Yield every case that a target must pass."""
    for topic in TOPICS:
        yield from topic.cases()
