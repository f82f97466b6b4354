import gc
from collections.abc import Iterator

import pytest

from lamina.rare_collection import rarely_collecting


@pytest.fixture
def threshold() -> Iterator[tuple[int, int, int]]:
    """Thresholds of this test's own, as they are before anything collects rarely."""
    former = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield gc.get_threshold()
    gc.set_threshold(*former)


def test_the_last_to_leave_restores_how_often_garbage_is_collected(
    threshold: tuple[int, int, int],
) -> None:
    first, second = rarely_collecting(), rarely_collecting()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] > threshold[0]
    second.__exit__(None, None, None)
    assert gc.get_threshold() == threshold


@pytest.mark.parametrize("young", [0, 10**6])
def test_a_collector_that_works_yet_more_seldom_is_left_alone(
    threshold: tuple[int, int, int], young: int
) -> None:
    gc.set_threshold(young, 10, 10)
    with rarely_collecting():
        assert gc.get_threshold() == (young, 10, 10)
    assert gc.get_threshold() == (young, 10, 10)
