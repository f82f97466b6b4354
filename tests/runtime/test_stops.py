from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import InputError
from lamina.runtime.stops import StopMatcher

TEXTS = st.text("ab", max_size=24)
STOPS = st.lists(st.text("ab", min_size=1, max_size=5), max_size=3)


def shown(stops: list[str], pieces: list[str]) -> str:
    matcher = StopMatcher(stops)
    return "".join(matcher.push(piece) for piece in pieces) + matcher.flush()


def text_before_first_complete(stops: list[str], text: str) -> str:
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))]
    return text


def test_text_without_a_stop_passes_at_once() -> None:
    assert StopMatcher(["END"]).push("hello ") == "hello "


def test_no_stop_strings_hold_nothing() -> None:
    assert StopMatcher([]).push("hello") == "hello"


@pytest.mark.parametrize("pieces", [["a#", "#", "#b"], ["a###b"], ["a", "#", "#", "#", "b"]])
def test_a_stop_spread_over_pieces_never_leaks(pieces: list[str]) -> None:
    matcher = StopMatcher(["###"])
    assert [text for piece in pieces if (text := matcher.push(piece))] == ["a"]
    assert matcher.matched == "###"


def test_held_text_is_released_when_the_match_fails() -> None:
    matcher = StopMatcher(["###"])
    assert [matcher.push("a##"), matcher.push("b")] == ["a", "##b"]
    assert not matcher.stopped


def test_only_the_part_that_may_still_match_stays_held() -> None:
    matcher = StopMatcher(["aab"])
    assert [matcher.push("aa"), matcher.push("a"), matcher.push("b")] == ["", "a", ""]
    assert matcher.stopped


def test_held_text_comes_out_at_the_end() -> None:
    matcher = StopMatcher(["\n\nUser:"])
    assert [matcher.push("bye\n\nUse"), matcher.flush(), matcher.flush()] == ["bye", "\n\nUse", ""]


def test_flushed_text_takes_no_part_in_a_later_match() -> None:
    matcher = StopMatcher(["ab"])
    assert [matcher.push("a"), matcher.flush(), matcher.push("b")] == ["", "a", "b"]


def test_the_stop_that_is_complete_first_wins() -> None:
    matcher = StopMatcher(["world", "lo"])
    assert matcher.push("hello world") == "hel"
    assert matcher.matched == "lo"


def test_of_stops_complete_at_once_the_longest_wins() -> None:
    matcher = StopMatcher(["d", "nd", "end"])
    assert matcher.push("the end") == "the "
    assert matcher.matched == "end"


def test_nothing_is_shown_after_a_stop() -> None:
    matcher = StopMatcher(["."])
    assert [matcher.push("a.b"), matcher.push("c"), matcher.flush()] == ["a", "", ""]


@pytest.mark.parametrize("pieces", [["a#", "#", "#b"], ["a###b"], ["a", "#", "#", "#", "b"]])
def test_a_stop_that_is_included_ends_the_text(pieces: list[str]) -> None:
    matcher = StopMatcher(["###"], include=True)
    assert "".join(matcher.push(piece) for piece in pieces) + matcher.flush() == "a###"


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(InputError, match="a stop string is empty"):
        StopMatcher(["x", ""])


@given(STOPS, TEXTS, st.lists(st.integers(0, 24), max_size=6))
def test_what_is_shown_does_not_depend_on_the_pieces(
    stops: list[str], text: str, cuts: list[int]
) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    assert shown(stops, pieces) == text_before_first_complete(stops, text)


@given(STOPS, TEXTS)
def test_shown_text_is_never_taken_back(stops: list[str], text: str) -> None:
    matcher, so_far = StopMatcher(stops), ""
    for end, character in enumerate(text, 1):
        so_far += matcher.push(character)
        assert text_before_first_complete(stops, text[:end]).startswith(so_far)
