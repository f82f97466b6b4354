from collections.abc import Callable

import numpy as np
import pytest

from lamina.errors import InputError
from lamina.targets.cpu.executable import CpuExecutable
from lamina.targets.memory import ALIGNMENT, allocate, empty

Load = Callable[..., CpuExecutable]
ONES = np.ones(10, np.float32)
ROWS = np.zeros((10, 6), np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "input 'x' is missing"),
        ({"x": ONES}, "input 's' is missing"),
        ({"x": ONES, "s": ROWS, "t": ONES}, "there is no input 't': expected x, s"),
        ({"x": ONES.astype("f8"), "s": ROWS}, "input 'x': expected float32, got float64"),
        ({"x": ONES, "s": ROWS.astype("i4")}, "input 's': expected float32, got int32"),
        ({"x": ROWS, "s": ROWS}, r"input 'x': expected shape \('T',\), got \(10, 6\)"),
        ({"x": ONES, "s": ROWS[:9].copy()}, "input 's': extent T cannot be 9 where T = 10"),
        ({"x": ONES, "s": ROWS[:, ::-1]}, "input 's': expected a contiguous, writable array"),
        ({"x": [1.0], "s": ROWS}, "input 'x': expected float32, got float64"),
    ],
)
def test_a_wrong_argument_is_named(load: Load, arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load("steps")(**arguments)


def test_too_many_and_repeated_inputs_are_refused(load: Load) -> None:
    with pytest.raises(InputError, match="expected at most 1 inputs, got 2"):
        load("steps")(ONES, ROWS)
    with pytest.raises(InputError, match="input 'x' is given twice"):
        load("steps")(ONES, x=ONES, s=ROWS)


def test_inputs_may_lie_anywhere(load: Load) -> None:
    base = np.arange(41, dtype=np.float32)
    for x in (base[1:], base[::-2], base.reshape(1, 41).T[:, 0]):
        out = load("steps")(x, s=np.zeros((len(x), 6), np.float32))
        assert np.array_equal(out["z"], 2 * x)


@pytest.mark.parametrize("shift", [0, 4, 16])
def test_a_state_is_updated_in_place_wherever_it_lies(load: Load, shift: int) -> None:
    state = allocate(10 * 6 * 4 + ALIGNMENT)[shift : shift + 240].view("f4").reshape(10, 6)
    load("steps")(ONES, s=state)
    load("steps")(ONES, s=state)
    assert np.array_equal(state, 2 * np.tile(np.arange(6, dtype="f4"), (10, 1)))


def test_a_call_leaves_the_outputs_of_the_last_one_alone(load: Load) -> None:
    first = load("steps")(ONES, s=ROWS.copy())["z"]
    load("steps")(3 * ONES, s=ROWS.copy())
    assert np.array_equal(first, 2 * ONES)


def test_a_session_gives_the_same_arrays_while_shapes_stay(load: Load) -> None:
    state = empty((10, 6), np.dtype("f4"))
    state[...] = 0
    session = load("steps").session({"s": state})
    first = session.run({"x": ONES})["z"]
    second = session.run({"x": 3 * ONES})["z"]
    assert first is second
    assert np.array_equal(second, 6 * ONES)
    assert np.array_equal(state, np.tile(4 * np.arange(6, dtype="f4"), (10, 1)))


def test_a_session_refuses_an_extent_that_its_states_do_not_have(load: Load) -> None:
    session = load("steps").session({"s": ROWS.copy()})
    with pytest.raises(InputError, match="input 's': extent T cannot be 10 where T = 9"):
        session.run({"x": ONES[:9]})
    assert np.array_equal(session.run({"x": ONES})["z"], 2 * ONES)


def test_outputs_are_aligned_and_named_in_order(load: Load) -> None:
    out = load("steps")(ONES, s=ROWS.copy())
    assert list(out) == [binding.name for binding in load("steps").outputs]
    assert all(array.ctypes.data % ALIGNMENT == 0 for array in out.values())


def test_memory_that_the_system_has_not_is_refused() -> None:
    with pytest.raises(InputError, match="there is no memory for"):
        allocate(1 << 60)
