import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.runtime.batch import ROLES, Batch, Part

PAGES = [np.array([9, 4, 7], np.int32), np.array([2], np.int32), np.array([5, 6], np.int32)]


def lists(batch: Batch, *parts: Part) -> dict[str, list]:
    return {role: array.tolist() for role, array in batch.fill(parts).items()}


def test_a_batch_lists_tokens_places_pages_work_and_rows() -> None:
    prompt = Part([11, 12, 13, 14, 15], 32, PAGES[0])
    last = Part([21], 7, PAGES[1], rows=1)
    short = Part([31, 32], 0, PAGES[2], rows=2)
    assert lists(Batch(block=2), prompt, last, short) == {
        "tokens": [11, 12, 13, 14, 15, 21, 31, 32],
        "positions": [32, 33, 34, 35, 36, 7, 0, 1],
        "query_start": [0, 5, 6, 8],
        "table": [[9, 4, 7], [2, 0, 0], [5, 6, 0]],
        "work": [[0, 0], [0, 1], [0, 2], [1, 0], [2, 0]],
        "rows": [5, 6, 7],
    }


def test_a_batch_may_want_no_logits() -> None:
    assert Batch(block=2).fill([Part([1], 0, PAGES[1])])["rows"].shape == (0,)


def test_an_empty_batch_has_a_start() -> None:
    assert lists(Batch(block=2))["query_start"] == [0]


def test_arrays_of_small_batches_lie_where_the_last_ones_lay() -> None:
    batch = Batch(block=4)
    first, second = (batch.fill([Part([n], n, PAGES[0], rows=1)]) for n in range(2))
    assert all(first[role].ctypes.data == second[role].ctypes.data for role in ROLES)
    assert all(array.ctypes.data % 64 == 0 for array in second.values())


def test_a_table_follows_sequences_that_leave_and_come() -> None:
    batch = Batch(block=4)
    parts = [Part([1], 0, pages) for pages in PAGES]
    tables = [lists(batch, *some)["table"] for some in (parts, parts[1:], parts[:1], parts[1:])]
    assert tables == [[[9, 4, 7], [2, 0, 0], [5, 6, 0]], tables[3], [[9, 4, 7]], [[2, 0], [5, 6]]]


def test_a_batch_that_failed_half_way_leaves_no_table_behind() -> None:
    batch, good = Batch(block=4), Part([1], 0, PAGES[0])
    other, bad = Part([1], 0, PAGES[1]), Part([1], 0, np.array(["no page"]))
    assert lists(batch, good, other)["table"] == [[9, 4, 7], [2, 0, 0]]
    with pytest.raises(ValueError, match="no page"):
        batch.fill([other, bad])
    assert lists(batch, good, other)["table"] == [[9, 4, 7], [2, 0, 0]]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(1, 40))
def test_work_has_every_token_once(sizes: list[int], block: int) -> None:
    found = Batch(block).fill([Part(range(n), 0, PAGES[0]) for n in sizes])
    starts, seen = found["query_start"], np.zeros(sum(sizes), int)
    for part, number in found["work"]:
        first = starts[part] + number * block
        seen[first : min(first + block, starts[part + 1])] += 1
    assert (seen == 1).all()
