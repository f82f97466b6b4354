"""Weights in super-blocks: the numbers they stand for, whichever form they are in."""

from collections.abc import Sequence
from typing import Any

import ggml_blocks
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.utils.exceptions import VerifyException

from lamina.dialects import quant
from lamina.dialects.tensors import tensor
from lamina.passes.pack_weights import FORMS
from lamina.plugins import manager
from lamina.targets.reference.blocks import dequantized
from lamina.targets.reference.interpreter import Interpreter, Program, quiet

ROWS, COLUMNS = 19, 512
FORMATS = ("q4_k", "q5_k", "q6_k")
KINDS = {"int8": i8, "float16": f16, "float32": f32}


def run(types: Sequence[Attribute], build: Any, *arrays: Any) -> tuple[Any, ...]:
    """The results of one operation on these arrays."""
    block = Block(arg_types=types)
    op: Operation = build(*block.args)
    block.add_ops([op, ReturnOp(*op.results)])
    results = [result.type for result in op.results]
    module = ModuleOp([FuncOp("forward", (types, results), Region(block))])
    module.verify()
    with quiet():
        return Interpreter(Program(manager.meanings(), module)).call("forward", arrays)


def types_of(arrays: Sequence[Any]) -> list[Attribute]:
    return [tensor(KINDS[str(array.dtype)], array.shape) for array in arrays]


def weight(format: str) -> np.ndarray:
    return ggml_blocks.random_rows(format, ROWS, COLUMNS, np.random.default_rng(0))


def packed(format: str) -> tuple[Any, ...]:
    form, kind = FORMS[format], quant.BlocksType.of(format, ROWS, COLUMNS)

    def build(w: Any) -> Operation:
        return quant.PackOp(w, form.bits, offset=form.offset, group=form.group, scales=form.scales)

    return run([kind], build, weight(format))


@pytest.mark.parametrize("format", FORMATS)
def test_super_blocks_stand_for_their_numbers(format: str) -> None:
    exact = ggml_blocks.numbers(format, weight(format))
    np.testing.assert_allclose(dequantized(format, weight(format)), exact, rtol=0, atol=1e-7)


@pytest.mark.parametrize("format", FORMATS)
def test_no_rows_of_super_blocks_are_no_numbers(format: str) -> None:
    assert dequantized(format, weight(format)[:0]).shape == (0, COLUMNS)


@pytest.mark.parametrize("format", FORMATS)
def test_a_packed_weight_stands_for_exactly_the_same_numbers(format: str) -> None:
    parts = packed(format)

    def build(*w: Any) -> Operation:
        return quant.DequantizeOp(w, ROWS, COLUMNS, zero=FORMS[format].zero)

    (found,) = run(types_of(parts), build, *parts)
    np.testing.assert_array_equal(found, dequantized(format, weight(format)))


@pytest.mark.parametrize("format", FORMATS)
def test_blocks_and_packed_weights_multiply_to_the_same_bits(format: str) -> None:
    x = np.random.default_rng(1).standard_normal((3, COLUMNS)).astype(np.float32)
    left, parts = run(types_of([x]), quant.QuantizeOp, x), packed(format)
    zero = FORMS[format].zero

    def build(*args: Any) -> Operation:
        return quant.LinearOp(args[3:], args[:3], ROWS, zero=zero if len(args) > 4 else 0)

    blocks = [*types_of(left), quant.BlocksType.of(format, ROWS, COLUMNS)]
    plain = run(blocks, build, *left, weight(format))
    tiled = run([*types_of(left), *types_of(parts)], build, *left, *parts)
    np.testing.assert_array_equal(plain, tiled)
    exact = (left[0].reshape(3, -1, 32) * left[1][..., None]).reshape(3, -1)
    exact = exact @ ggml_blocks.numbers(format, weight(format)).T
    np.testing.assert_allclose(tiled[0], exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("format", FORMATS)
def test_rows_of_a_weight_are_a_weight(format: str) -> None:
    kind = quant.BlocksType.of(format, ROWS, COLUMNS)
    (part,) = run([kind], lambda w: quant.RowsOp(w, 3, 5), weight(format))
    np.testing.assert_array_equal(part, weight(format)[3:8])


@pytest.mark.parametrize(("start", "count"), [(-1, 2), (18, 2), (20, 0)])
def test_rows_that_a_weight_has_not_are_refused(start: int, count: int) -> None:
    (w,) = Block(arg_types=[quant.BlocksType.of("q4_k", ROWS, COLUMNS)]).args
    with pytest.raises(VerifyException, match=rf"has no {count} rows from {start} on"):
        quant.RowsOp(w, start, count).verify()


@pytest.mark.parametrize(("scales", "offsets"), [((2, 1, 16), None), ((2, 4, 16), (2, 2, 16))])
def test_scales_and_offsets_of_another_shape_are_refused(scales: Any, offsets: Any) -> None:
    parts = [(i8, (2, 2, 8, 16, 4)), (f32, scales), *([(f32, offsets)] if offsets else [])]
    w = Block(arg_types=[tensor(kind, shape) for kind, shape in parts]).args
    with pytest.raises(VerifyException, match=r"scales are|offsets must be"):
        quant.DequantizeOp(w, 32, 64).verify()
