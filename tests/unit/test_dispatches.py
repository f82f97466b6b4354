"""Plans written out for given numbers: which dispatches there are, where, and with which words."""

from pathlib import Path

import pytest

from lamina.dialects.text import read_module
from lamina.errors import InputError
from lamina.plugins import manager
from lamina.targets.plans.dispatches import (
    Barrier,
    Dispatch,
    Dispatches,
    HostDispatch,
    dispatches_of,
)
from lamina.targets.plans.plan_encoding import encode_plan
from lamina.targets.plans.plan_tables import ARENA, FIRST_ARRAY, Plan

PLANS = Path(__file__).parents[1] / "cpu" / "plans"


def plan(name: str) -> Plan:
    return encode_plan(read_module(manager.context(), PLANS / f"{name}.mlir"), 0, [])


def steps(size: int, workers: int = 7) -> Dispatches:
    return dispatches_of(plan("steps"), {"T": size}, workers)


def launched(found: Dispatches) -> list[tuple[int, tuple[int, int, int]]]:
    return [(each.kernel, each.grid) for each in found.tasks if isinstance(each, Dispatch)]


def test_a_switch_takes_the_branch_of_its_range() -> None:
    double, add, small = 0, 1, 2
    before = [(double, (1, 1, 1)), (small, (1, 2, 3)), (double, (1, 1, 1))]
    assert launched(steps(1)) == [*before, (add, (7, 1, 1))]
    assert launched(steps(3))[3:] == [(double, (1, 1, 1))]
    assert launched(steps(17))[3:] == [(double, (2, 1, 1)), (add, (7, 1, 1))]


def test_an_empty_grid_is_left_out() -> None:
    assert launched(steps(0)) == [(1, (7, 1, 1))]


def test_a_dispatch_says_where_its_memrefs_are_and_what_its_kernel_is_told() -> None:
    first, second, *_ = (each for each in steps(17).tasks if isinstance(each, Dispatch))
    assert first.memrefs == ((FIRST_ARRAY, 0), (ARENA, 0))
    assert first.words == (17, 17, 17)
    assert second.memrefs == ((FIRST_ARRAY, 0), (FIRST_ARRAY + 1, 0))
    *_, last = (each for each in steps(17).tasks if isinstance(each, Dispatch))
    assert last.memrefs[0] == (ARENA, 128)
    assert last.words[-2:] == (17, 7)


def test_dispatches_of_a_stage_have_no_barrier_between_them() -> None:
    stages = [each.stage for each in steps(17).tasks if isinstance(each, Dispatch)]
    barriers = [isinstance(each, Barrier) for each in steps(17).tasks]
    assert stages == [0, 0, 0, 1, 2]
    assert barriers.count(True) == 2


def test_sizes_are_those_of_the_numbers() -> None:
    found = steps(17)
    assert found.arena == 256
    assert found.outputs == ((17,), (17,))
    assert found.symbols == {"T": 17, "workers": 7}


def test_a_host_call_stands_between_barriers_with_its_arrays() -> None:
    tasks = dispatches_of(plan("hosted"), {"T": 5}, 1).tasks
    kinds = [type(each) for each in tasks]
    assert kinds == [Dispatch, Barrier, HostDispatch, Barrier, Dispatch]
    host = tasks[2]
    assert isinstance(host, HostDispatch)
    assert [(each.dtype, each.shape, each.access) for each in host.arrays] == [
        ("f32", (5,), "read"),
        ("i32", (5,), "read"),
        ("f32", (5,), "write"),
    ]


def test_numbers_beyond_64_bits_are_refused_with_the_sizes() -> None:
    with pytest.raises(InputError, match=f"there is no memory for T = {1 << 62}: use smaller"):
        steps(1 << 62)
