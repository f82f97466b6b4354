"""Conformance cases by topic."""

from __future__ import annotations

from collections.abc import Iterator

from lamina.errors import InputError
from lamina.testing.case import Case
from lamina.testing.suites import (
    aliases,
    convolutions,
    elementwise,
    fusions,
    models,
    products,
    quantised,
    ragged,
    recurrent,
    reductions,
    shapes,
)

TOPICS = (
    elementwise,
    shapes,
    reductions,
    products,
    convolutions,
    recurrent,
    quantised,
    ragged,
    fusions,
    aliases,
    models,
)
"""Every module of cases."""


def cases(*names: str) -> Iterator[Case]:
    """Yield every case that a target must pass, or those of the topics that are named.

    Raises `InputError` for a name that is no topic's.
    """
    topics = {topic.__name__.rpartition(".")[2]: topic for topic in TOPICS}
    if unknown := [name for name in names if name not in topics]:
        raise InputError(f"there is no topic {unknown[0]!r} (known: {', '.join(topics)})")
    for name in names or topics:
        yield from topics[name].cases()
