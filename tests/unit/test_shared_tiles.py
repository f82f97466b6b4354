"""The tiles that the threads of a block share, by what is multiplied."""

import pytest

from lamina.passes.schedules.cost_model import CostModel
from lamina.passes.schedules.machine import Machine
from lamina.passes.schedules.shared_tiles import (
    WARP,
    WARPGROUP,
    Dot,
    SharedTile,
    shared_tile,
)

SMALL = SharedTile(128, 64, 32, 128)
LARGE = SharedTile(128, 128, 32, 128, 4, 1024, 2)


@pytest.mark.parametrize(
    ("dot", "tile"),
    [
        (Dot(16, True, 4096, 4096, 4096), LARGE),
        (Dot(16, True, 64, 64, 64), SMALL),
        (Dot(16, True, 100, 50000, 512), SMALL),
        (Dot(16, True, 512, 4096, 512), LARGE),
        (Dot(16, True, 512, 2048, 512), SMALL),
        (Dot(16, True, 128, 128, 4096, batches=128), SharedTile(128, 128, 32, 128, 4, None, 2)),
        (Dot(16, True, 4096, 4096, 4100), SMALL),
        (Dot(16, True, 4096, 4096, None), SMALL),
        (Dot(16, True, 4096, 4095, 4096), SMALL),
        (Dot(16, False, 4096, 4096, 4096), SharedTile(64, 64, 32, 128)),
        (Dot(16, True, None, 4096, 512), LARGE),
        (Dot(16, True, None, 576, 512), SMALL),
        (Dot(16, True, 4096, 4096, 512, beside=True), LARGE),
        (Dot(16, True, None, 4096, 512, beside=True), SMALL),
        (Dot(8, True, 4096, 4096, 4096), SharedTile(128, 128, 64, 128, 4, 1024, 2)),
        (Dot(8, True, 4096, 4096, 96), SharedTile(128, 128, 32, 128, 4, 1024, 2)),
        (Dot(8, True, 64, 64, 64), SharedTile(128, 64, 64, 128)),
    ],
)
def test_tiles_are_large_where_all_multiprocessors_have_one(dot: Dot, tile: SharedTile) -> None:
    assert shared_tile(dot, 128, WARP, 4) == tile


def test_four_warps_together_have_larger_tiles() -> None:
    found = shared_tile(Dot(16, True, 4096, 4096, 4096), 128, WARPGROUP, 4)
    assert (found.m, found.n, found.k, found.threads) == (128, 256, 64, 256)
    small = shared_tile(Dot(16, True, 64, 64, 64), 128, WARPGROUP, 4)
    assert small == SharedTile(128, 64, 64, 128, 4)
    assert shared_tile(Dot(16, True, 64, 64, 96), 128, WARPGROUP, 4) == SMALL


def test_floats_have_units_where_a_machine_is_told_to() -> None:
    wide = Dot(32, True, 4096, 4096, 4096)
    for matrix in (WARP, WARPGROUP):
        model = CostModel(Machine(threads=128, matrix=matrix, tf32=True))
        assert model.shared_dot(wide) == SharedTile(128, 128, 16, 128, 4, 1024, 2)


@pytest.mark.parametrize("matrix", [0, WARP])
def test_what_units_do_not_multiply_has_sums_in_a_quarter_of_the_registers(matrix: int) -> None:
    wide = Dot(32, True, 64, 64, 64)
    assert shared_tile(wide, 128, matrix, 4) == SharedTile(64, 64, 4, 128)
    assert CostModel(Machine(threads=64)).shared_dot(wide) == SharedTile(64, 32, 4, 64)


def test_what_units_do_not_multiply_is_copied_ahead_where_copies_are_asynchronous() -> None:
    large = Dot(32, True, 4096, 4096, 4096)
    assert shared_tile(large, 128, WARP, 4) == SharedTile(128, 128, 8, 256, 4, 1024)
    assert shared_tile(large, 128, 0, 4) == SharedTile(64, 64, 4, 128)


def test_machines_without_units_keep_their_name() -> None:
    assert Machine(matrix=WARP).digest != Machine().digest == Machine(matrix=0).digest
