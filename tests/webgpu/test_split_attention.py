"""Attention with a long past on the adapter: split among blocks, and in one block, to the same bits."""

import numpy as np
import pytest
from split_attention import CASES, PAST, Attention, blocks, compiled, steps_of, token_of

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
    assert few[:2] == [3, 9]
    assert many[:2] == [3 * 16, 9]


def test_tokens_of_prompts_have_the_bits_that_they_have_alone(device) -> None:
    attention = Attention(block=8)
    executable = compiled(attention, WebGpuTarget())
    call = attention.call((0, 31, 257, 0), (1, 3, 31, 130))
    together = executable(**call)["y"]
    exact = lamina.compile(attention.module(), "reference", pipeline="", weights={})(**call)["y"]
    np.testing.assert_allclose(together, exact, rtol=0, atol=2e-6)
    for sequence, token in ((0, 0), (1, 2), (2, 11), (2, 34), (3, 35), (3, 42)):
        alone = executable(**token_of(call, sequence, token))["y"][0]
        np.testing.assert_array_equal(alone, together[token])


def test_a_prompt_has_a_block_for_several_tokens(device) -> None:
    executable = compiled(Attention(block=8), WebGpuTarget())
    assert blocks(executable, T=512, S=1, W=64, B=8, pages=8)[0] == 3 * 64
