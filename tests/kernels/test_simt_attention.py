"""Attention in parts as the work of threads, which the reference watches for races."""

import numpy as np
import pytest
from split_attention import Attention, passes_from_splits, steps_of

import lamina
from lamina.targets.cuda.target import CudaTarget
from lamina.targets.webgpu.target import WebGpuTarget

pytestmark = pytest.mark.gpu

CASES = {
    "webgpu, 64 wide": (WebGpuTarget(), Attention(page=16)),
    "webgpu, entries of 8 tokens": (WebGpuTarget(), Attention(page=16, block=8)),
    "cuda, 80 wide": (CudaTarget(), Attention(size=80, page=16, block=2)),
}


@pytest.mark.parametrize(("target", "attention"), CASES.values(), ids=CASES)
def test_threads_have_the_same_bits_of_a_step_in_parts_and_in_one_block(target, attention):
    steps = passes_from_splits(target, 32)
    threads = lamina.compile(attention.module(), "reference", pipeline=steps, weights={})
    exact = lamina.compile(attention.module(), "reference", pipeline="", weights={})
    call = attention.call((0, 31, 70, 3), [1, 1, 1, 4])
    together = threads(**call)["y"]
    np.testing.assert_allclose(together, exact(**call)["y"], rtol=0, atol=2e-6)
    np.testing.assert_array_equal(threads(**steps_of(call, 3))["y"], together[:3])
