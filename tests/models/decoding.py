"""Steps of several sequences through a decoder, whatever target runs it."""

from collections.abc import Mapping, Sequence

import numpy as np

from lamina.runtime.batch import Part
from lamina.runtime.session import Session
from lamina.targets.base import Executable

Step = Mapping[str, Sequence[int]]
"""The tokens that a step appends to each sequence."""

MOST = 128
"""Positions of a sequence."""


def run_steps(
    executable: Executable, steps: Sequence[Step], *, page_seed: int | None = None
) -> list[np.ndarray]:
    """The logits after every token of each step: [T, vocab], sequences in the step's order."""
    names = dict.fromkeys(name for step in steps for name in step)
    session = Session(executable, MOST * len(names), page_seed=page_seed)
    pages = {}
    for name in names:
        pages[name] = session.pages.take(session.pages.new_owner(), session.pages_for(MOST))
    lengths = dict.fromkeys(names, 0)
    found = []
    for step in steps:
        parts = []
        for name, tokens in step.items():
            parts.append(Part(tokens, lengths[name], pages[name], len(tokens)))
            lengths[name] += len(tokens)
        found.append(session.step(parts, np.copy))
    return found
