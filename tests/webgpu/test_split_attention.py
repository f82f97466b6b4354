"""Attention with a long past on the adapter: split among blocks, and in one block, to the same bits."""

import numpy as np
import pytest
from split_attention import CASES, PAST, Attention, blocks, compiled, steps_of

import lamina
from lamina.targets.webgpu.target import WebGpuTarget

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("attention", CASES.values(), ids=CASES)
def test_steps_have_the_bits_that_they_have_beside_a_prompt(device, attention: Attention) -> None:
    executable = compiled(attention, WebGpuTarget())
    call = attention.call((*PAST, 3), [1] * len(PAST) + [4])
    together = executable(**call)["y"]
    exact = lamina.compile(attention.module(), "reference", pipeline="", weights={})(**call)["y"]
    np.testing.assert_allclose(together, exact, rtol=0, atol=2e-6)
    apart = executable(**steps_of(call, len(PAST)))["y"]
    np.testing.assert_array_equal(apart, together[: len(PAST)])


def test_a_step_with_a_long_past_has_more_blocks(device) -> None:
    executable = compiled(Attention(), WebGpuTarget())
    few, many = (blocks(executable, T=1, S=1, W=1, B=pages, pages=64) for pages in (1, 64))
    assert few == [3, 9]
    assert many == [3 * 16, 9]
