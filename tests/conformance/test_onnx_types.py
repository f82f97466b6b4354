"""The table of operators by element types: some of its cells are found again."""

import random
from collections import Counter

import pytest
from onnx_types import COMPILED, became, cells, read

pytestmark = pytest.mark.onnx

SOME = 400


def test_the_table_says_what_becomes_of_operators() -> None:
    found = read()
    chosen = random.Random(6).sample(sorted(found), SOME)
    wrong = {cell: state for cell in chosen if (state := became(cell)) != found[cell]}
    assert not wrong


def test_the_table_has_every_operator_that_models_can_be_made_of() -> None:
    have, known = {cell.operator for cell in read()}, {cell.operator for cell in cells()}
    assert have <= known
    assert len(known - have) < 10


def test_most_of_the_table_is_compiled() -> None:
    counted = Counter(read().values())
    assert counted[COMPILED] > 0.85 * counted.total()
