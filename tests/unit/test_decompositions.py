"""Each composite means what its decomposition means."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    bf16,
    f16,
    f32,
    i8,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from lamina.dialects import cache, nn, quant
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, tensor
from lamina.passes.decompose_composites import DECOMPOSITIONS, DecomposeCompositesPass, decompose_in
from lamina.passes.fuse_attention import match_attention
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
    return returning(block, build(*block.args))


def returning(block: Block, op: Operation) -> ModuleOp:
    block.add_ops([op, ReturnOp(*op.results)])
    types = [[value.type for value in values] for values in (block.args, op.results)]
    return ModuleOp([FuncOp("forward", (types[0], types[1]), Region(block))])


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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_softmax_equals_its_decomposition(axis: int, size: int) -> None:
    module = module_of(lambda x: nn.SoftmaxOp(x, axis), [tensor(f32, ["T", "N"])])
    check(module, [normal(5, size, scale=9.0) if axis else normal(size, 5, scale=9.0)])


def test_a_softmax_of_hidden_places_equals_its_decomposition() -> None:
    x = np.array([[-np.inf, 1, 2], [-np.inf] * 3, [np.nan, 1, 2], [300, -300, 3e38]], np.float32)
    check(module_of(lambda x: nn.SoftmaxOp(x, 1), [tensor(f32, [4, 3])]), [x])


NORMS: dict[str, tuple[int, Build]] = {
    "layer_norm": (2, lambda x, w, b: nn.LayerNormOp(x, w, b, 1e-5)),
    "rms_norm": (1, lambda x, w: nn.RmsNormOp(x, w, 1e-6)),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("width", [1, 3, "N"])
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_equals_its_decomposition(name: str, width: int | str, size: int) -> None:
    count, build = NORMS[name]
    types = [tensor(f32, ["T", width])] + [tensor(f32, [width])] * count
    n = width if isinstance(width, int) else 31
    check(module_of(build, types), [1 + normal(size, n), *(normal(n) for _ in range(count))])


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_of_half_floats_rounds_once(name: str) -> None:
    count, build = NORMS[name]
    types = [tensor(f16, ["T", 31])] + [tensor(f16, [31])] * count
    xs = [normal(*shape).astype(np.float16) for shape in [(3, 31)] + [(31,)] * count]
    check(module_of(build, types), xs, 2e-3)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("half", [1, 3, 4])
@pytest.mark.parametrize("interleaved", [False, True])
def test_a_rope_equals_its_decomposition(interleaved: bool, half: int, size: int) -> None:
    types = [tensor(f32, ["T", 3, 8]), *[tensor(f32, ["T", half])] * 2]
    module = module_of(lambda *xs: nn.RopeOp(*xs, interleaved=interleaved), types)
    angle = normal(size, half, scale=9.0)
    check(module, [normal(size, 3, 8), np.cos(angle), np.sin(angle)])


def attention(*values: SSAValue, causal: bool = False) -> Operation:
    properties: dict[str, Attribute] = {"scale": FloatAttr(0.3, f32)}
    properties |= {"causal": UnitAttr()} if causal else {}
    q, k, v, *mask = values
    return nn.AttentionOp(
        operands=[q, k, v, mask], properties=properties, result_types=[values[0].type]
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("causal", [False, True])
def test_an_attention_equals_its_decomposition(causal: bool, groups: int, size: int) -> None:
    q, kv = tensor(f32, ["B", 6, "L", 5]), tensor(f32, ["B", groups, "M", 5])
    module = module_of(partial(attention, causal=causal), [q, kv, kv])
    check(module, [normal(2, 6, size, 5), *(normal(2, groups, size + 4, 5) for _ in "kv")])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("causal", [False, True])
def test_a_masked_attention_equals_its_decomposition(causal: bool, size: int) -> None:
    q = tensor(f32, ["B", 2, "L", 5])
    module = module_of(partial(attention, causal=causal), [q, q, q, tensor(f32, ["B", "L"])])
    mask = np.zeros((3, size), np.float32)
    mask[:, 1::2] = -np.inf
    check(module, [*(normal(3, 2, size, 5) for _ in "qkv"), mask])


def test_an_attention_of_half_floats_rounds_once() -> None:
    module = module_of(attention, [tensor(f16, [1, 2, 7, 5])] * 3)
    check(module, [normal(1, 2, 7, 5).astype(np.float16) for _ in "qkv"], 2e-3)


STARTS = ([0], [0, 0], [0, 1], [0, 3, 3, 4], [0, 30, 31])


@pytest.mark.parametrize("starts", STARTS)
def test_a_sequence_equals_its_decomposition(starts: list[int]) -> None:
    block = Block(arg_types=[tensor(i32, ["S + 1"]), tensor(i32, ["T"])])
    op = cache.SequenceOp(block.args[0], Dim.symbol("T"))
    check(returning(block, op), [np.array(starts, np.int32), np.zeros(starts[-1], np.int32)], 0)


@pytest.mark.parametrize("starts", STARTS)
@pytest.mark.parametrize("tile", [0, 4])
def test_an_attention_over_pages_equals_its_decomposition(tile: int, starts: list[int]) -> None:
    pool = PagesType.of(f32, "P", 2, 4, 5, tile)
    batch = {"positions": ["T"], "query_start": ["S + 1"], "table": ["S", "B"], "work": ["W", 2]}
    types = [tensor(f32, ["T", 6, 5]), pool, pool, *(tensor(i32, d) for d in batch.values())]
    module = module_of(lambda q, k, v, *b: cache.AttentionOp(q, k, v, b, scale=0.3, block=8), types)
    random, tokens = np.random.default_rng(2), starts[-1]
    blocks = [-(-(end - start + 2) // 4) for start, end in pairwise(starts)]
    table = np.full((len(blocks), max(blocks, default=0)), -1)
    pages = random.permutation(sum(blocks))
    for s, count in enumerate(blocks):
        table[s, :count], pages = pages[:count], pages[count:]
    work = [(s, b) for s, (x, y) in enumerate(pairwise(starts)) for b in range(-(-(y - x) // 8))]
    places = [2 + t - start for start, end in pairwise(starts) for t in range(start, end)]
    shape = [sum(blocks), *extents(pool.storage)[1:]]
    pools = [random.normal(size=[int(str(n)) for n in shape]).astype(np.float32) for _ in "kv"]
    integers = places, starts, table, np.array(work).reshape(-1, 2)
    arrays = [normal(tokens, 6, 5), *pools, *(np.array(each, np.int32) for each in integers)]
    check(module, arrays)


QUANTISED = {
    "tiny": 1e-43,
    "small": 1e-3,
    "large": 1e30,
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", QUANTISED.values(), ids=QUANTISED)
def test_quantised_activations_equal_their_decomposition(scale: float, size: int) -> None:
    x = normal(size, 96) * np.float32(scale)
    x[:, 32:64] = 0
    check(module_of(quant.QuantizeOp, [tensor(f32, ["T", 96])]), [x], 0)


def weight(
    bits: int, rows: int, columns: int, *, offset: bool, group: int = 32
) -> tuple[list[Any], list[Any]]:
    """Return the types and random arrays of a packed weight."""
    random = np.random.default_rng(9)
    tiles = -(-rows // 16)
    shapes = [[tiles, columns // 32, bits, 16, 4], *[[tiles, columns // group, 16]] * (1 + offset)]
    types = [tensor(f16 if n else i8, shape) for n, shape in enumerate(shapes)]
    quants = random.integers(-128, 128, shapes[0]).astype(np.int8)
    scales = [random.normal(0, 0.1, shape).astype(np.float16) for shape in shapes[1:]]
    return types, [quants, *scales]


@pytest.mark.parametrize("rows", [1, 16, 31])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("offset", [False, True])
def test_a_packed_weight_equals_its_decomposition(offset: bool, bits: int, rows: int) -> None:
    types, arrays = weight(bits, rows, 96, offset=offset)
    build = lambda *w: quant.DequantizeOp(w, rows, 96, zero=0 if offset else 8)  # noqa: E731
    check(module_of(build, types), arrays)


@pytest.mark.parametrize("offset", [False, True])
def test_a_weight_with_scales_of_half_a_block_equals_its_decomposition(offset: bool) -> None:
    types, arrays = weight(8, 31, 96, offset=offset, group=16)
    build = lambda *w: quant.DequantizeOp(w, 31, 96, zero=32)  # noqa: E731
    check(module_of(build, types), arrays, 1e-4)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("bits", "group"), [(4, 32), (8, 32), (8, 16)])
@pytest.mark.parametrize("offset", [False, True])
def test_a_quantised_linear_equals_its_decomposition(
    offset: bool, bits: int, group: int, size: int
) -> None:
    types, arrays = weight(bits, 31, 96, offset=offset, group=group)
    module = module_of(quant.QuantizeOp, [tensor(f32, ["T", 96])])
    activations = run(module, [normal(size, 96)])
    quantised = [tensor(i8, ["T", 96]), *[tensor(f32, ["T", 3])] * 2]
    build = lambda q, d, s, *w: quant.LinearOp(w, (q, d, s), 31, zero=0 if offset else 8)  # noqa: E731
    check(module_of(build, [*quantised, *types]), [*activations, *arrays], 1e-4)


def test_blocks_of_a_file_stay_whole() -> None:
    blocks = quant.BlocksType.of("q4_0", 3, 32)
    module = module_of(lambda w: quant.DequantizeOp([w], 3, 32), [blocks])
    decompose_in(module, keep=())
    assert "quant.dequantize" in names(module)


def test_an_embedding_of_blocks_equals_its_decomposition() -> None:
    types = [quant.BlocksType.of("q4_0", 7, 32), tensor(i32, ["T"])]
    module = module_of(lambda t, i: nn.EmbeddingOp(t, i, 32), types)
    table = np.random.default_rng(4).integers(0, 256, (7, 18)).astype(np.uint8)
    table[:, :2] = np.array([0.5], np.float16).view(np.uint8)
    arrays = [table, np.array([6, 0, 6], np.int32)]
    (before,) = run(module, arrays)
    decompose_in(module, keep=())
    assert names(module)[1:3] == ["quant.dequantize", "nn.gather"]
    np.testing.assert_array_equal(run(module, arrays)[0], before)


def test_what_is_kept_stays_whole_and_only_what_is_named_goes() -> None:
    build = lambda x: nn.SoftmaxOp(x, 0)  # noqa: E731
    kept, named = (module_of(build, [tensor(f32, [4])]) for _ in range(2))
    decompose_in(kept, keep=("nn.softmax",))
    decompose_in(named, keep=(), only=("nn.relu",))
    assert "nn.softmax" in names(kept)
    assert "nn.softmax" in names(named)


def test_a_decomposition_has_the_source_of_its_composite() -> None:
    module = module_of(lambda x: nn.SoftmaxOp(x, 0), [tensor(f32, [4])])
    source = ArrayAttr([StringAttr("/p")])
    next(op for op in module.walk() if isinstance(op, nn.SoftmaxOp)).attributes["lamina.src"] = (
        source
    )
    decompose_in(module, keep=())
    *spelt, _ = module.body.block.first_op.body.block.ops  # type: ignore[union-attr]
    assert {op.attributes["lamina.src"] for op in spelt} == {source}


def test_an_attention_over_pages_becomes_the_graph_that_fuse_attention_knows() -> None:
    pool = PagesType.of(f32, "P", 2, 4, 5, 0)
    batch = [tensor(i32, dims) for dims in (["T"], ["S + 1"], ["S", "B"], ["W", 2])]
    build = lambda q, k, v, *b: cache.AttentionOp(q, k, v, b, scale=0.5, block=8)  # noqa: E731
    module = module_of(build, [tensor(f32, ["T", 6, 5]), pool, pool, *batch])
    decompose_in(module, keep=(), only=("cache.attention",))
    dots = [op for op in module.walk() if isinstance(op, nn.DotGeneralOp)]
    parts = match_attention(dots[-1])
    assert parts is not None
    assert parts.scale == 0.5
