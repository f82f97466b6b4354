"""Compiling again gives the same code, whatever is in it."""

import warnings

import pytest

from lamina.compiler import lower, resolve_target
from lamina.plugins import manager
from lamina.testing import Case, cases

CHOSEN = ("outputs", "parts-of-an-output", "gated-blocks", "page-attention", "positions")
PICKED = [case for case in cases() if case.name in CHOSEN]


@pytest.mark.parametrize("case", PICKED, ids=lambda case: case.name)
@pytest.mark.parametrize("target", sorted(manager.targets()))
def test_compiling_three_times_gives_the_same_bytes(target: str, case: Case) -> None:
    chosen = resolve_target(target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = [lower(case.sheet().module, chosen) for _ in range(3)]
    artifacts = [chosen.emit(manager.context(), module) for module in modules]
    assert artifacts[0].sections == artifacts[1].sections == artifacts[2].sections
