"""The table of texts: what stays in it, and for how long."""

import gc

import numpy as np
import pytest

from lamina.dialects.text_codes import code_of
from lamina.errors import InputError
from lamina.targets.text_table import TextTable

WORDS = np.array([["a", ""], ["ä", "a"]], np.object_)


def test_the_empty_text_alone_is_0() -> None:
    assert code_of("") == 0
    assert len({code_of(text) for text in ("a", "b", "\0", "\ud800", "ä")} - {0}) == 5


def test_codes_are_the_same_in_every_process() -> None:
    assert code_of("a") == 3405396810240292928


def test_texts_come_back_from_codes() -> None:
    table = TextTable()
    with table.call():
        codes = table.encode(WORDS)
        assert codes.dtype == np.int64
        np.testing.assert_array_equal(table.decode(codes), WORDS)


def test_texts_go_when_their_call_is_over() -> None:
    table = TextTable()
    with table.call():
        codes = table.encode(WORDS)
    assert len(table) == 0
    with pytest.raises(InputError, match="outside of the call"):
        table.decode(codes)


def test_texts_stay_for_a_call_that_was_under_way() -> None:
    table = TextTable()
    with table.call():
        with table.call():
            codes = table.encode(WORDS)
        assert table.decode(codes).tolist() == WORDS.tolist()
    assert len(table) == 0


def test_calls_that_overlap_for_ever_leave_nothing_behind() -> None:
    table = TextTable()
    last = table.call()
    last.__enter__()
    for n in range(50):
        following = table.call()
        following.__enter__()
        table.encode(np.array([f"{n}"], np.object_))
        last.__exit__(None, None, None)
        last = following
    assert len(table) <= 2
    last.__exit__(None, None, None)


def test_a_pinned_text_stays_as_long_as_its_pin() -> None:
    table = TextTable()
    code = np.array(code_of("a"))
    pins = [table.pin(["a"]), table.pin(["a"])]
    del pins[0]
    gc.collect()
    assert table.decode(code).item() == "a"
    pins.clear()
    gc.collect()
    with pytest.raises(InputError):
        table.decode(code)


def test_two_texts_of_one_code_are_refused() -> None:
    table = TextTable(len)
    with table.call():
        table.encode(np.array(["a"], np.object_))
        with pytest.raises(InputError, match="'a' and 'b' have the same code"):
            table.encode(np.array(["b"], np.object_))
        with pytest.raises(InputError, match="'a' and 'b' have the same code"):
            table.pin(["b"])
