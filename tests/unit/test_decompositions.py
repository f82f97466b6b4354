"""Each composite means what its decomposition means."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region

from lamina.dialects import nn
from lamina.dialects.tensors import tensor
from lamina.passes.decompose_composites import DECOMPOSITIONS, DecomposeCompositesPass
from lamina.targets.reference import cache as cache_meanings
from lamina.targets.reference import nn as nn_meanings
from lamina.targets.reference import quant as quant_meanings
from lamina.targets.reference.interpreter import Interpreter, Program, quiet

SIZES = (0, 1, 3, 31)
MEANINGS = nn_meanings.MEANINGS | quant_meanings.MEANINGS | cache_meanings.MEANINGS
Build = Callable[..., Operation]


def module_of(build: Build, types: Sequence[Attribute]) -> ModuleOp:
    """Return a module whose @forward gives the results of one operation on its arguments."""
    block = Block(arg_types=types)
    op = build(*block.args)
    block.add_ops([op, ReturnOp(*op.results)])
    results = [result.type for result in op.results]
    return ModuleOp([FuncOp("forward", (types, results), Region(block))])


def run(module: ModuleOp, arrays: Sequence[Any]) -> tuple[Any, ...]:
    with quiet():
        return Interpreter(Program(MEANINGS, module)).call(
            "forward", [np.copy(array) for array in arrays]
        )


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.body.block.first_op.walk()]  # type: ignore[union-attr]


def check(module: ModuleOp, arrays: Sequence[Any], tolerance: float = 1e-5) -> ModuleOp:
    """Decompose, and compare the results before and after."""
    before = run(module, arrays)
    DecomposeCompositesPass().apply(Context(), module)
    module.verify()
    assert not {kind.name for kind in DECOMPOSITIONS} & set(names(module))
    for expected, got in zip(before, run(module, arrays), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(
            got.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
        )
    return module


def normal(*shape: int, scale: float = 1.0) -> Any:
    return np.random.default_rng(7).normal(0, scale, shape).astype(np.float32)


MAPS: dict[str, Build] = {
    "relu": nn.ReluOp,
    "sigmoid": nn.SigmoidOp,
    "silu": nn.SiluOp,
    "gelu": nn.GeluOp,
    "gelu-tanh": lambda x: nn.GeluOp(x, approximate=True),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MAPS)
def test_an_activation_equals_its_decomposition(name: str, size: int) -> None:
    check(module_of(MAPS[name], [tensor(f32, ["T", 5])]), [normal(size, 5, scale=4.0)])


@pytest.mark.parametrize("name", MAPS)
def test_an_activation_of_extreme_values_equals_its_decomposition(name: str) -> None:
    x = np.array([0.0, -0.0, 1e-40, 50.0, -50.0, 89.0, -89.0, 3e38, np.inf, -np.inf, np.nan])
    check(module_of(MAPS[name], [tensor(f32, ["T"])]), [x.astype(np.float32)])


@pytest.mark.parametrize(("element", "dtype"), [(f16, "f2"), (bf16, "bfloat16")])
@pytest.mark.parametrize("name", MAPS)
def test_an_activation_of_half_floats_rounds_once(
    name: str, element: Attribute, dtype: str
) -> None:
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    check(
        module_of(MAPS[name], [tensor(element, ["T"])]), [normal(31, scale=4.0).astype(kind)], 8e-3
    )


def test_relu_of_integers_equals_its_decomposition() -> None:
    x = np.array([-(2**31), -1, 0, 5, 2**31 - 1], np.int32)
    check(module_of(nn.ReluOp, [tensor(i32, [5])]), [x], 0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("element", "kind"), [(f32, np.float32), (f16, np.float16)])
def test_an_embedding_equals_its_decomposition(size: int, element: Attribute, kind: type) -> None:
    types = [tensor(element, [7, 5]), tensor(i32, ["T"])]
    ids = np.random.default_rng(1).integers(0, 7, size).astype(np.int32)
    check(
        module_of(lambda t, i: nn.EmbeddingOp(t, i, 5), types), [normal(7, 5).astype(kind), ids], 0
    )
