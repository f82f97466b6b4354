"""What an examination of a model says: every form that is not supported, and how much is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lamina.errors import FormatError, LaminaError

COMPILED, BY_MEANING, REFUSED, UNCHECKED = "compiled", "by meaning", "refused", "unchecked"
STATES: Final = (COMPILED, BY_MEANING, REFUSED, UNCHECKED)
"""What becomes of a node; of an unchecked one, which needs a refused one, its operator is known."""

FORMAT, UNSUPPORTED = "FORMAT", "UNSUPPORTED"
"""The codes of findings in formats that have none of their own."""


@dataclass(frozen=True)
class Finding:
    """One thing that keeps a model from being compiled; `code` stays the same for ever."""

    code: str
    node: str
    operator: str
    message: str
    suggestion: str


@dataclass(frozen=True)
class Examination:
    """All findings of one model; `nodes` counts its nodes by operator and state.

    `warnings` are what reading it warns of.
    """

    findings: Sequence[Finding] = ()
    nodes: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    warnings: Sequence[str] = ()

    def count(self, state: str) -> int:
        """Return how many nodes are of one of STATES."""
        return sum(number for (_, each), number in self.nodes.items() if each == state)

    @property
    def total(self) -> int:
        """How many nodes there are."""
        return sum(self.nodes.values())

    @property
    def coverage(self) -> float:
        """The part of the nodes that is compiled or run by meaning, from 0 to 1."""
        served = self.count(COMPILED) + self.count(BY_MEANING)
        return served / self.total if self.total else float(not self.findings)


def examination_of_error(error: LaminaError) -> Examination:
    """Return what is said of a model that cannot be read."""
    wrong = isinstance(error, FormatError)
    said = "get the file anew: it is damaged" if wrong else "export the model in another form"
    return Examination((Finding(FORMAT if wrong else UNSUPPORTED, "", "", str(error), said),))
