"""Weights of 16 bits: kept as they are in memory, computed as f32."""

import re
from collections.abc import Callable

import numpy as np
import numpy_gpt2
import numpy_llama
import pytest
from checkpoints import VOCAB, Checkpoint
from decoding import run_steps
from xdsl.dialects.builtin import ModuleOp

import lamina
from lamina.compiler import lower, resolve_target
from lamina.frontend.model import Model

EXACT = {"llama": numpy_llama.logits, "gpt2": numpy_gpt2.logits}
MODELS = {"llama-f16": "f16", "llama-bf16": "bf16", "gguf-bf16": "bf16", "gguf-gpt2-f16": "f16"}
TARGET = 'cpu{activations="f32"}'
TEXT = np.random.default_rng(3).integers(0, VOCAB, 9).tolist()


def prepared(model: Model) -> ModuleOp:
    """The module after weights were prepared."""
    passes = resolve_target(TARGET).passes()
    count = [each.name for each in passes].index("prepare-weights") + 1
    return lower(model, TARGET, passes[:count])


@pytest.mark.parametrize("name", MODELS)
def test_matrices_stay_halves_and_logits_are_those_of_float64(
    name: str, tiny: Callable[[str], tuple[Checkpoint, Model]]
) -> None:
    checkpoint, model = tiny(name)
    (found,) = run_steps(lamina.compile(model, TARGET, threads=2), [{"a": TEXT}])
    exact = EXACT[checkpoint.kind](checkpoint.arrays, checkpoint.settings, TEXT)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-4)
    (forward,) = re.findall(r"func\.func @forward\((.*)", str(prepared(model)))
    packed = re.findall(r"tensor<(?:\d+x)+\d+x(\w+)> \{lamina\.packed", forward)
    assert len(packed) >= 9
    assert set(packed) <= {MODELS[name], "f32"}
    assert packed.count("f32") <= 1
