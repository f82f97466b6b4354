"""What a model is called with is checked, on every target, in a sentence that names it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from checkpoints import Checkpoint
from decoding import run_steps

import lamina
from lamina.errors import InputError
from lamina.frontend.decoder import PAGE
from lamina.frontend.model import Model
from lamina.targets.base import NUMPY, Executable

Tiny = Callable[[str], tuple[Checkpoint, Model]]


class Unwilling:
    def __array__(self, *_: object, **__: object) -> Any:
        raise TypeError("no")


INPUTS = {
    "tokens": np.int32([3, 4, 5]),
    "positions": np.int32([0, 1, 2]),
    "query_start": np.int32([0, 3]),
    "table": np.int32([[0]]),
    "work": np.int32([[0, 0], [0, 1]]),
    "rows": np.int32([2]),
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an input is missing": ({"rows": None}, "input 'rows' is missing"),
    "a state is missing": ({"k.1": None}, "input 'k.1' is missing"),
    "a name is unknown": ({"mask": np.int32([1])}, "there is no input 'mask': expected tokens, "),
    "a dtype is wider": (
        {"tokens": np.int64([3, 4, 5])},
        "input 'tokens': expected int32, got int64",
    ),
    "a dtype is of floats": (
        {"positions": np.float32([0, 1, 2])},
        "input 'positions': expected int32, got float32",
    ),
    "a rank is lower": (
        {"table": np.int32([0])},
        r"input 'table': expected shape \('S', 'B'\), got \(1,\)",
    ),
    "a rank is 0": ({"tokens": np.int32(3)}, r"input 'tokens': expected shape \('T',\), got \(\)"),
    "extents differ": (
        {"positions": np.int32([0, 1])},
        "input 'positions': extent T cannot be 2 where T = 3",
    ),
    "extents do not follow": (
        {"table": np.int32([[0], [0]])},
        "input 'table': extent S cannot be 2 where S = 1",
    ),
    "an extent is too small": (
        {"query_start": np.int32([])},
        r"input 'query_start': extent S \+ 1 cannot be 0",
    ),
    "a constant extent differs": (
        {"work": np.int32([[0, 0, 0]])},
        "input 'work': extent 2 cannot be 3",
    ),
    "a list has another dtype": (
        {"tokens": [3.0, 4.0, 5.0]},
        "input 'tokens': expected int32, got float64",
    ),
    "a list is ragged": ({"table": [[0], [0, 1]]}, "input 'table': is no array"),
    "a class is no array": ({"rows": np.ndarray}, "input 'rows': expected int32, got object"),
    "a number is complex": ({"rows": [2j]}, "input 'rows': expected int32, got complex128"),
    "a number is too large": ({"rows": [10**40]}, "input 'rows': expected int32, got object"),
    "it fails to become one": ({"rows": Unwilling()}, "input 'rows': is no array"),
    "text is no array": ({"tokens": "Hello"}, "input 'tokens': expected int32, got <U5"),
}


@pytest.fixture(scope="module", params=["reference", "cpu"])
def executable(request: pytest.FixtureRequest, tiny: Tiny) -> Executable:
    return lamina.compile(tiny("llama")[1], request.param)


@pytest.fixture(scope="module")
def native(tiny: Tiny) -> Executable:
    return lamina.compile(tiny("llama")[1], "cpu")


def arguments(executable: Executable) -> dict[str, Any]:
    """The inputs, and pools of four pages."""
    pools = {
        pool.name: np.zeros([d.evaluate({"pages": 4}) for d in pool.dims], NUMPY[pool.dtype])
        for pool in executable.signature.states
    }
    return INPUTS | pools


def call(executable: Executable, changes: dict[str, Any]) -> dict[str, Any]:
    given = arguments(executable) | changes
    return executable(**{name: value for name, value in given.items() if value is not None})


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_named(executable: Executable, case: str) -> None:
    changes, message = WRONG[case]
    with pytest.raises(InputError, match=f"^{message}"):
        call(executable, changes)


@pytest.mark.parametrize("name", ["k.0", "v.1"])
def test_a_wrong_state_is_named(executable: Executable, name: str) -> None:
    pool = arguments(executable)[name]
    frozen = pool.copy()
    frozen.flags.writeable = False
    for wrong, reason in (
        (pool.astype(np.float64), r"expected float\d\d, got float64"),
        (pool[..., :-1].copy(), r"extent \d+ cannot be \d+"),
        (pool[0], r"expected shape \('pages', "),
        (pool[:3].copy(), "extent pages cannot be [34] where pages = [34]"),
        (frozen, "expected a contiguous, writable array"),
        (pool.tolist(), "expected an array to be updated, got list"),
    ):
        with pytest.raises(InputError, match=f"^input '[kv].[01]': {reason}"):
            call(executable, {name: wrong})


def test_positional_inputs_are_checked_too(executable: Executable) -> None:
    inputs, pools = list(INPUTS.values()), arguments(executable)
    for name in INPUTS:
        del pools[name]
    with pytest.raises(InputError, match=r"^input 'positions': extent T cannot be 0 where T = 3"):
        executable(inputs[0], inputs[1][:0], *inputs[2:], **pools)
    with pytest.raises(InputError, match=r"^input 'tokens' is given twice"):
        executable(*inputs, tokens=inputs[0], **pools)
    with pytest.raises(InputError, match=r"^expected at most 6 inputs, got 7"):
        executable(*inputs, inputs[0], **pools)


@pytest.mark.parametrize("value", [-1, 301, 2**31 - 1, -(2**31)])
def test_a_token_that_is_none_is_an_error_that_names_the_node(
    executable: Executable, value: int
) -> None:
    with pytest.raises(InputError, match="/embed_tokens"):
        call(executable, {"tokens": np.int32([3, value, 5])})


def test_a_refused_call_leaves_the_code_usable(executable: Executable) -> None:
    steps = [{"a": [3, 4, 5]}]
    (before,) = run_steps(executable, steps)
    with pytest.raises(InputError):
        call(executable, {"tokens": np.int32([3, 999, 5])})
    (after,) = run_steps(executable, steps)
    assert np.array_equal(before, after)


@pytest.mark.parametrize(
    "wrong",
    [
        {"positions": np.int32([0, 1, PAGE])},
        {"positions": np.int32([0, 1, 10**9])},
        {"positions": np.int32([0, -1, 2])},
        {"table": np.int32([[7]])},
        {"table": np.int32([[-(10**9)]])},
    ],
    ids=["position-behind", "position-1e9", "position-below-0", "page-7", "page-below-0"],
)
def test_a_place_that_no_page_has_is_an_error_and_not_a_stray_write(
    executable: Executable, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InputError):
        call(executable, wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"work": np.int32([[10**9, 0]])},
        {"work": np.int32([[-1, -1]])},
        {"query_start": np.int32([-(10**9), 10**9])},
    ],
    ids=["no-such-sequence", "below-0", "no-such-tokens"],
)
def test_a_batch_that_contradicts_itself_does_not_end_the_process(
    native: Executable, wrong: dict[str, Any]
) -> None:
    with suppress(InputError):
        call(native, wrong)
    assert np.isfinite(call(native, {})["logits"]).all()
