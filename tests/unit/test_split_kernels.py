"""Attention in parts of the positions: the same bits from one program or from several."""

from collections.abc import Sequence

import numpy as np
import pytest
from group_module import Body, Run, compare, module_of
from page_batch import PAGE, Batch, attention, contents, pool
from split_attention import Attention
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, f32
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from lamina.dialects import cache
from lamina.dialects.tensors import tensor
from lamina.passes.choose_splits import ChooseSplitsPass
from lamina.plugins import manager
from lamina.targets.signature import signature_of

SPAN = 2 * PAGE
STEPS = Batch([0, 1, 31, 64], [1, 1, 1, 1])
MIXED = Batch([30, 0, 62], [5, 3, 1])
SHAPES = {"9 heads over 3": (3, 3, 64, 1, STEPS), "one head each": (2, 1, 80, 2, MIXED)}


def whole(kinds, heads: int, block: int) -> ModuleOp:
    def build(body: Body) -> SSAValue:
        y = attention(body, kinds, heads, block)
        y.op.span = IntegerAttr(SPAN, 64)
        return y

    return module_of(build, "attention")


def partial(kinds, heads: int, block: int) -> ModuleOp:
    def build(body: Body) -> SSAValue:
        op = attention(body, kinds, heads, block).op
        op.detach()
        parts = cache.PartialAttentionOp(
            *op.operands[:3], tuple(op.operands[3:]), scale=0.25, block=block, span=SPAN, rows=64
        )
        return body.add(parts)

    return module_of(build, "partial_attention")


def merge(heads: int, width: int) -> ModuleOp:
    def build(body: Body) -> SSAValue:
        parts = body.arg(tensor(f32, ["T", heads, "P", width + cache.BESIDE]))
        return body.add(cache.MergeOp(parts, body.arg("i32[T]"), SPAN))

    return module_of(build, "merge")


def arguments(batch: Batch, kinds, heads: int, block: int) -> list[np.ndarray]:
    pools = [contents(kind, seed) for seed, kind in enumerate(kinds)]
    rest = [batch.positions, batch.starts, batch.table, batch.work(block)]
    return [batch.numbers(heads, kinds[0].dim.value.data), *pools, *rest]


def in_parts(kinds, heads: int, block: int, arrays: Sequence[np.ndarray], steps: str) -> np.ndarray:
    parts = Run(partial(kinds, heads, block), steps)(arrays)["y0"]
    width = kinds[0].dim.value.data
    return Run(merge(heads, width), steps)([parts, arrays[3]])["y0"]


@pytest.mark.parametrize(
    ("groups", "shared", "size", "block", "batch"), SHAPES.values(), ids=SHAPES
)
def test_parts_give_the_same_bits_in_one_program_and_in_several(
    groups: int, shared: int, size: int, block: int, batch: Batch
) -> None:
    kinds, heads = (
        (pool("f16 tiles", groups, size), pool("f16 rows", groups, size)),
        groups * shared,
    )
    arrays, module = arguments(batch, kinds, heads, block), whole(kinds, heads, block)
    compare(module, arrays, atol=1e-5, rtol=1e-4)
    split = in_parts(kinds, heads, block, arrays, "lower-groups")
    np.testing.assert_array_equal(split, Run(module, "lower-groups")(arrays)["y0"])


@pytest.mark.parametrize("block", [1, 3])
def test_what_parts_mean_is_what_attention_means(block: int) -> None:
    kinds = pool("f16 tiles"), pool("f16 rows")
    arrays = arguments(MIXED, kinds, 2, block)
    expected = Run(whole(kinds, 2, block), "")(arrays)["y0"]
    np.testing.assert_allclose(in_parts(kinds, 2, block, arrays, ""), expected, atol=2e-6)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_stays_in_its_own_row(number: float) -> None:
    kinds = pool("f16 tiles"), pool("f16 rows")
    arrays = arguments(MIXED, kinds, 2, 2)
    arrays[0][5, 1, 3] = number
    split = in_parts(kinds, 2, 2, arrays, "lower-groups")
    found = np.isnan(split).all(-1)
    assert found[5, 1]
    assert found.sum() == 1


def test_parts_that_no_token_sees_do_not_matter() -> None:
    kinds = pool("f16 tiles"), pool("f16 rows")
    arrays = arguments(MIXED, kinds, 2, 1)
    parts = Run(partial(kinds, 2, 1), "lower-groups")(arrays)["y0"]
    seen = SPAN * np.arange(parts.shape[2]) <= MIXED.positions[:, None]
    other = np.where(seen[:, None, :, None], parts, np.nan)
    found = [Run(merge(2, 32), "lower-groups")([x, arrays[3]])["y0"] for x in (parts, other)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("span", [0, 24])
def test_a_part_has_whole_pages(span: int) -> None:
    module = whole((pool("f16 tiles"), pool("f16 rows")), 2, 1)
    (op,) = (op for op in module.walk() if isinstance(op, cache.AttentionOp))
    op.span = IntegerAttr(span, 64)
    with pytest.raises(VerifyException, match=f"parts of {span} positions over pages of 16"):
        module.verify()


@pytest.mark.parametrize(
    ("attention", "tokens"),
    [
        (Attention(), 8),
        (Attention(size=128, groups=1, shared=4), 4),
        (Attention(size=256, groups=1, shared=2), 4),
        (Attention(size=256, groups=1, shared=16), 1),
    ],
)
def test_an_entry_has_as_many_tokens_as_have_room(attention, tokens):
    module = attention.module()
    ChooseSplitsPass(entry=24).apply(manager.context(), module)
    assert signature_of(module).attributes["block"] == tokens
