"""Attention with a long past on the interpreter: split among blocks, and in one block, to the same bits."""

import numpy as np
import pytest
from fake_cuda import FakeCudaTarget
from split_attention import CASES, PAST, Attention, compiled, steps_of

import lamina

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("attention", CASES.values(), ids=CASES)
def test_steps_have_the_bits_that_they_have_beside_a_prompt(attention: Attention) -> None:
    executable = compiled(attention, FakeCudaTarget())
    call = attention.call((*PAST, 3), [1] * len(PAST) + [4])
    together = executable(**call)["y"]
    exact = lamina.compile(attention.module(), "reference", pipeline="", weights={})(**call)["y"]
    np.testing.assert_allclose(together, exact, rtol=0, atol=2e-6)
    apart = executable(**steps_of(call, len(PAST)))["y"]
    np.testing.assert_array_equal(apart, together[: len(PAST)])
