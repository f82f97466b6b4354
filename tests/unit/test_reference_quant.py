from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region

from lamina.dialects import quant
from lamina.dialects.tensors import tensor
from lamina.errors import LoweringError
from lamina.plugins import manager
from lamina.targets.reference.blocks import dequantized, take_apart
from lamina.targets.reference.interpreter import Interpreter, Program, quiet

F32 = np.float32
ROWS, COLUMNS = 19, 96
ZEROS = {"q4_0": 8, "q4_1": 0, "q5_0": 16, "q5_1": 0, "q8_0": 128}


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


def blocks(format: str, values: Any, scale: Any, offset: Any) -> Any:
    """Blocks written one by one from quants [N, K], scales and offsets [N, K / 32]."""
    rows: list[list[int]] = []
    for n in range(len(values)):
        row: list[int] = []
        for b, quants in enumerate(values[n].reshape(-1, 32).tolist()):
            row += np.float16(scale[n, b]).tobytes()
            row += np.float16(offset[n, b]).tobytes() if format in ("q4_1", "q5_1") else b""
            if format == "q8_0":
                row += [(q - 128) % 256 for q in quants]
                continue
            high = sum((q >> 4) << i for i, q in enumerate(quants))
            row += high.to_bytes(4, "little") if format in ("q5_0", "q5_1") else b""
            row += [quants[i] % 16 | quants[i + 16] % 16 << 4 for i in range(16)]
        rows.append(row)
    return np.array(rows, np.uint8)


def weight(format: str, seed: int = 0) -> tuple[Any, Any]:
    """Random blocks of a format, and the numbers that they stand for."""
    rng = np.random.default_rng(seed)
    size = 256 if format == "q8_0" else 1 << int(format[1])
    values = rng.integers(0, size, (ROWS, COLUMNS))
    scale = rng.standard_normal((ROWS, COLUMNS // 32)).astype(np.float16)
    offset = rng.standard_normal((ROWS, COLUMNS // 32)).astype(np.float16)
    numbers = (values - ZEROS[format]) * np.repeat(scale, 32, 1).astype(F32)
    if format in ("q4_1", "q5_1"):
        numbers = numbers + np.repeat(offset, 32, 1).astype(F32)
    return blocks(format, values, scale, offset), numbers.astype(F32)


def packed(format: str, rows: Any, bits: int) -> tuple[Any, ...]:
    kind = quant.BlocksType.of(format, *(ROWS, COLUMNS))
    offset = take_apart(format, rows).offset is not None
    return run([kind], lambda w: quant.PackOp(w, bits, offset=offset), rows)


def packed_types(parts: Sequence[Any]) -> list[Attribute]:
    kinds = {"int8": i8, "float16": f16, "float32": f32}
    return [tensor(kinds[str(part.dtype)], part.shape) for part in parts]


@pytest.mark.parametrize("format", ZEROS)
def test_blocks_stand_for_their_numbers(format: str) -> None:
    rows, numbers = weight(format)
    np.testing.assert_array_equal(dequantized(format, rows), numbers)


@pytest.mark.parametrize(("format", "bits"), [(f, 8) for f in ZEROS] + [("q4_0", 4), ("q4_1", 4)])
def test_a_packed_weight_stands_for_the_same_numbers(format: str, bits: int) -> None:
    rows, numbers = weight(format)
    parts = packed(format, rows, bits)
    assert parts[0].shape == (2, 3, bits, 16, 4)

    def build(*w: Any) -> Operation:
        return quant.DequantizeOp(w, ROWS, COLUMNS, zero=ZEROS[format])

    (found,) = run(packed_types(parts), build, *parts)
    np.testing.assert_array_equal(found, numbers)


def test_a_byte_holds_the_low_and_the_high_group_of_a_pair() -> None:
    values = np.zeros((ROWS, COLUMNS), int)
    values[17, 32 + 8 + 1], values[17, 32 + 12 + 1] = 5, 6
    ones = np.ones((ROWS, 3))
    q, *_ = packed("q4_1", blocks("q4_1", values, ones, ones), 4)
    assert q[1, 1, 1, 1, 1] == 5 | 6 << 4
    assert np.count_nonzero(q) == 1


@pytest.mark.parametrize(("format", "bits"), [("q5_1", 8), ("q4_1", 4)])
def test_a_weight_packed_in_pieces_is_that_packed_at_once(
    monkeypatch: pytest.MonkeyPatch, format: str, bits: int
) -> None:
    rows, _ = weight(format)
    whole = packed(format, rows, bits)
    monkeypatch.setattr("lamina.targets.reference.quant._AT_ONCE", 1)
    for part, piecewise in zip(whole, packed(format, rows, bits), strict=True):
        np.testing.assert_array_equal(piecewise, part)


def test_rows_are_padded_with_zeros() -> None:
    for part in packed("q4_1", weight("q4_1")[0], 4):
        lanes = part.swapaxes(2, 3)[1, :, 3:] if part.ndim == 5 else part[1, :, 3:]
        assert lanes.size
        assert not lanes.any()


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(LoweringError, match="cannot read blocks of q2_k"):
        take_apart("q2_k", np.zeros((1, 84), np.uint8))


def quantize(x: Any) -> tuple[Any, ...]:
    return run([tensor(f32, x.shape)], quant.QuantizeOp, x)


def test_activations_are_rounded_to_even_in_units_of_the_largest() -> None:
    x = np.zeros((1, 64), F32)
    x[0, :5] = [-127, 2.5, 3.5, -0.5, 0.49]
    q, d, s = quantize(x)
    np.testing.assert_array_equal(q[0, :6], [-127, 2, 4, 0, 0, 0])
    np.testing.assert_array_equal(d, [[1, 0]])
    np.testing.assert_array_equal(s, [[-121, 0]])


def test_a_block_of_zeros_has_no_scale_and_no_rows_give_no_rows() -> None:
    q, d, s = quantize(np.full((2, 32), -0.0, F32))
    assert not (q.any())
    assert not (d.any())
    assert not (s.any())
    assert [part.shape for part in quantize(np.zeros((0, 64), F32))] == [(0, 64), (0, 2), (0, 2)]


@pytest.mark.parametrize("bits", [0, 4, 8])
@pytest.mark.parametrize("format", ["q4_0", "q4_1"])
def test_a_product_of_quants_is_near_that_of_the_numbers(format: str, bits: int) -> None:
    rows, numbers = weight(format)
    x = np.random.default_rng(1).standard_normal((5, COLUMNS)).astype(F32)
    activations = quantize(x)
    parts = packed(format, rows, bits) if bits else (rows,)
    blocks_type = quant.BlocksType.of(format, ROWS, COLUMNS)
    types = packed_types(parts) if bits else [blocks_type]
    kinds = [tensor({"int8": i8}.get(str(a.dtype), f32), a.shape) for a in activations]

    def build(*args: Any) -> Operation:
        return quant.LinearOp(args[3:], args[:3], ROWS, zero=ZEROS[format] if bits else 0)

    (found,) = run([*kinds, *types], build, *activations, *parts)
    q, d, _ = activations
    expected = (q.reshape(5, -1, 32) * d[..., None]).reshape(5, -1) @ numbers.T.astype(float)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_blocks_and_packed_weights_give_the_same_bits() -> None:
    rows, _ = weight("q4_0")
    activations = quantize(np.random.default_rng(2).standard_normal((3, COLUMNS)).astype(F32))
    kinds = [tensor({"int8": i8}.get(str(a.dtype), f32), a.shape) for a in activations]
    parts = packed("q4_0", rows, 4)
    plain = run(
        [*kinds, quant.BlocksType.of("q4_0", ROWS, COLUMNS)],
        lambda *args: quant.LinearOp(args[3:], args[:3], ROWS),
        *activations,
        rows,
    )
    tiled = run(
        [*kinds, *packed_types(parts)],
        lambda *args: quant.LinearOp(args[3:], args[:3], ROWS, zero=8),
        *activations,
        *parts,
    )
    np.testing.assert_array_equal(plain, tiled)
