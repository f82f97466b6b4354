"""How products with packed weights are cut for threads: tiles, and the order of sums."""

import pytest

from lamina.passes.kernels.depth_parts import MOST, DepthParts
from lamina.passes.schedules.shared_linears import shared_linear

COUNTS = tuple(range(1, 65))


@pytest.mark.parametrize(
    ("blocks", "parts"), [(1, 1), (17, 9), (18, 18), (48, 24), (128, 32), (344, 32)]
)
def test_blocks_are_dealt_to_partial_sums(blocks: int, parts: int) -> None:
    found = DepthParts.of(blocks)
    assert found.count == parts
    assert found.rounds * parts + found.rest == blocks


def test_no_more_than_an_eighth_of_the_blocks_is_gone_through_in_vain() -> None:
    for blocks in range(1, 2000):
        found = DepthParts.of(blocks)
        rounds = found.rounds + (found.rest > 0)
        assert found.count <= min(MOST, blocks)
        assert rounds * found.count * 8 <= blocks * 9


def test_many_rows_have_a_square_tile_and_two_products_half_of_its_columns() -> None:
    one, two = (shared_linear(4096, COUNTS, n, None, 128) for n in (1, 2))
    assert one.numbers == {"m": 64, "n": 64, "threads": 128}
    assert two.numbers == {"m": 64, "n": 32, "threads": 128}


def test_few_rows_have_a_panel_and_as_many_parts_as_there_are_threads() -> None:
    assert shared_linear(4096, COUNTS, 1, 1, 128).numbers == {
        "m": 1,
        "n": 16,
        "threads": 128,
        "parts": 32,
    }


@pytest.mark.parametrize("threads", [64, 128])
@pytest.mark.parametrize("depth", [64, 576, 1536, 4096, 11008])
def test_threads_of_few_rows_are_busy(depth: int, threads: int) -> None:
    tile = shared_linear(depth, COUNTS, 1, 1, threads)
    assert tile.parts is not None
    assert threads * 3 // 4 <= tile.n // 4 * tile.parts <= threads


def test_a_head_that_is_turned_whole_has_all_its_columns_in_a_tile() -> None:
    assert [shared_linear(4096, (8,), 1, rows, 128).n for rows in (1, 16, None)] == [128] * 3
