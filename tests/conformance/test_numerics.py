"""The page on numerics: what it names exists; and no arithmetic is emitted that may be rearranged."""

import re
from pathlib import Path

import pytest

from lamina.compiler import lower, resolve_target
from lamina.plugins import manager
from lamina.testing import cases

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "held by" not in line]
KNOWN = {f"{case.name}/{check.name}" for case in cases() for check in case.sheet().checks}
FLAG = re.compile(r"\b(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc)\b")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_a_row_of_the_page_is_held_by_what_exists(row: str) -> None:
    named = re.findall(r"`([^`]+)`", row.rstrip("| ").rpartition("|")[2])
    assert named
    for name in named:
        assert (ROOT / name).is_file() if name.startswith("tests/") else name in KNOWN


@pytest.mark.filterwarnings("ignore:.*runs by its NumPy meaning")
@pytest.mark.parametrize("name", ["arithmetic-f32", "norms", "after-products", "page-attention"])
def test_no_arithmetic_may_be_rearranged(name: str) -> None:
    (case,) = (case for case in cases() if case.name == name)
    target = resolve_target("cpu")
    module = lower(case.sheet().module, target)
    artifact = target.emit(manager.context(), module)
    texts = target.listings(manager.context(), module, artifact)
    kernels = [text for file, text in texts.items() if file.endswith(".ll")]
    assert kernels
    assert not any(map(FLAG.search, kernels))
