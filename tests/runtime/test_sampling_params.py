import math

import numpy as np
import pytest

from lamina.errors import InputError
from lamina.runtime.sampling_params import SamplingParams

BAD = [
    *[("max_new_tokens", value) for value in (0, -1, None, 2**40, 1.5, True, "8")],
    *[("temperature", value) for value in (-1, -1e-9, math.nan, math.inf, None, "hot", 10**400)],
    *[("top_k", value) for value in (-2, 1.5, None, 2**40)],
    *[("top_p", value) for value in (-0.1, 1.1, math.nan, None)],
    *[("min_p", value) for value in (-0.1, 1.1, math.nan, None)],
    *[("repetition_penalty", value) for value in (0, -1, math.nan, math.inf, None)],
    *[("seed", value) for value in (-1, 2**64, 1.5, "1", False)],
    *[("stop", value) for value in ("", [""], ["a", ""], [b"a"], [None], 3, None)],
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^{name} "):
        SamplingParams(**{name: value})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("temperature", [0, 0.0, 1e-8, 9e-6])
def test_a_temperature_near_zero_is_greedy(temperature: float) -> None:
    assert SamplingParams(temperature=temperature).greedy


@pytest.mark.parametrize("top_k", [-1, 0, 1, 2**31 - 1])
def test_top_k_may_be_off_or_any_count(top_k: int) -> None:
    assert SamplingParams(top_k=top_k).top_k == top_k


def test_numpy_numbers_are_taken_as_numbers() -> None:
    params = SamplingParams(top_k=np.int64(5), top_p=np.float32(0.5))  # pyright: ignore
    assert (type(params.top_k), type(params.top_p)) == (int, float)


def test_one_string_is_one_stop() -> None:
    assert SamplingParams(stop="END").stop == ("END",)


def test_stops_are_copied_from_the_callers_list() -> None:
    stops = ["a"]
    params = SamplingParams(stop=stops)
    stops.append("")
    assert params.stop == ("a",)


@pytest.mark.parametrize("wrong", [None, 1, "yes"])
def test_including_the_stop_string_is_yes_or_no(wrong: object) -> None:
    with pytest.raises(InputError, match=r"^include_stop_str_in_output is "):
        SamplingParams(include_stop_str_in_output=wrong)  # pyright: ignore[reportArgumentType]
