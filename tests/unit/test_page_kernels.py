"""Kernels on pages of keys and values mean what their groups mean, in ragged batches."""

import numpy as np
import pytest
from group_module import Body, Run, compare, module_of
from page_batch import (
    BATCHES,
    COUNT,
    LONG,
    PAGE,
    POOLS,
    Batch,
    attention,
    batch_arguments,
    contents,
    pool,
)
from xdsl.dialects.builtin import f64, i8, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from lamina.dialects import cache, nn, quant
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.errors import InputError

T = Dim.symbol("T")


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("kind", POOLS)
def test_writing_rows(kind: str, batch: Batch) -> None:
    def build(body: Body) -> SSAValue:
        pages, x = body.arg(pool(kind)), body.arg("f32[T, 2, 32]")
        return body.add(
            cache.WriteOp(pages, x, *batch_arguments(body, "positions", "sequence", "table"))
        )

    arrays = [contents(pool(kind)), batch.numbers(2, 32)]
    compare(module_of(build, "rows"), [*arrays, batch.positions, batch.sequence, batch.table])


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("kind", ["f16 rows", "f16 tiles"])
def test_a_product_that_writes_its_rotated_rows(kind: str, rows: int) -> None:
    def build(body: Body) -> SSAValue:
        pages, x, w = body.arg(pool(kind)), body.arg("f32[T, 24]"), body.arg("f32[4, 24, 16]")
        y = body.add(nn.DotGeneralOp(x, w, [(1, 1)]))
        heads = body.add(nn.ReshapeOp(body.add(nn.ReshapeOp(y, [T, 64])), [T, 2, 32]))
        cos, sin = body.arg("f32[T, 16]"), body.arg("f32[T, 16]")
        turned = body.add(nn.RopeOp(heads, cos, sin, interleaved=False))
        where = batch_arguments(body, "positions", "sequence", "table")
        return body.add(cache.WriteOp(pages, turned, *where))

    module, cases = module_of(build, "linear", m=rows, n=32, k=8), []
    for batch in BATCHES.values():
        weights = np.random.default_rng(2).normal(0, 1, (4, 24, 16)).astype(np.float32)
        operands = [batch.numbers(24), weights, batch.numbers(16), batch.numbers(16)]
        where = [batch.positions, batch.sequence, batch.table]
        cases.append([contents(pool(kind)), *operands, *where])
    # A product that is summed in another order may round to the next f16.
    compare(module, *cases, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", POOLS)
def test_reading_what_each_token_may_see(kind: str) -> None:
    def build(body: Body) -> SSAValue:
        pages = body.arg(pool(kind))
        where = batch_arguments(body, "positions", "sequence", "table")
        return body.add(cache.ReadOp(pages, *where))

    small = [BATCHES["one token"], BATCHES["a mixture"]]
    cases = [[contents(pool(kind)), b.positions, b.sequence, b.table] for b in small]
    compare(module_of(build, "rows"), *cases)


@pytest.mark.parametrize("block", [1, 2, 5])
@pytest.mark.parametrize(("heads", "shared", "size"), [(1, 3, 32), (2, 1, 64), (2, 2, 48)])
def test_attention(heads: int, shared: int, size: int, block: int) -> None:
    kinds = pool("f16 tiles", heads, size), pool("f16 rows", heads, size)
    module = module_of(lambda b: attention(b, kinds, heads * shared, block), "attention")
    cases = []
    for batch in BATCHES.values():
        pools = [contents(kind, seed) for seed, kind in enumerate(kinds)]
        rest = [batch.positions, batch.starts, batch.table, batch.work(block)]
        cases.append([batch.numbers(heads * shared, size), *pools, *rest])
    compare(module, *cases, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("size", [32, 64, 16])
def test_attention_may_end_in_a_quantisation(size: int) -> None:
    kinds = pool("f32 in 4", 2, size), pool("f32 rows", 2, size)

    def build(body: Body) -> list[SSAValue]:
        y = body.add(nn.ReshapeOp(attention(body, kinds, 4, 2), [T, 4 * size]))
        return list(body.add(quant.QuantizeOp(y)))[1:]

    batch = BATCHES["a mixture"]
    arrays = [batch.numbers(4, size), *(contents(kind, seed) for seed, kind in enumerate(kinds))]
    rest = [batch.positions, batch.starts, batch.table, batch.work(2)]
    compare(module_of(build, "attention"), [*arrays, *rest], atol=1e-4, rtol=1e-4)


def test_pages_that_nobody_wrote_do_not_matter() -> None:
    kinds = pool("f16 tiles"), pool("f16 rows")
    run = Run(module_of(lambda body: attention(body, kinds, 2, 1), "attention"), "lower-groups")
    batch = BATCHES["a first token"]
    rest = [batch.positions, batch.starts, batch.table, batch.work(1)]
    pools = [contents(kind) for kind in kinds]
    junk = [array.copy() for array in pools]
    page = batch.table[0, 0]
    junk[0][page].reshape(2, 32, 16)[..., 1:] = np.nan
    junk[1][page, :, 1:] = np.nan
    found = [run([batch.numbers(2, 32), *each, *rest])["y0"] for each in (pools, junk)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("number", [np.nan, -np.nan, np.inf, -np.inf])
def test_what_is_no_number_stays_in_its_own_row(number: float) -> None:
    kinds = pool("f16 tiles"), pool("f16 rows")
    module = module_of(lambda body: attention(body, kinds, 6, 3), "attention")
    batch = BATCHES["a mixture"]
    q = batch.numbers(6, 32)
    q[2, 1, 5] = number
    rest = [batch.positions, batch.starts, batch.table, batch.work(3)]
    compare(module, [q, *(contents(kind) for kind in kinds), *rest], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kinds", [("f16 tiles", "f16 rows"), ("f32 rows", "f32 rows")])
@pytest.mark.parametrize("past", [0, 62, 63, 64, 190])
def test_attention_over_pages_that_are_scored_in_parts(past: int, kinds: tuple[str, str]) -> None:
    keys, values = (pool(kind, 2, 64, LONG) for kind in kinds)
    module = module_of(lambda b: attention(b, (keys, values), 6, 3), "attention")
    batch = Batch([past, 5], [4, 1])
    table = np.int32([[3, 1, 8, 0], [5, 5, 5, 5]])
    pools = [contents(kind, seed) for seed, kind in enumerate((keys, values))]
    rest = [batch.positions, batch.starts, table, batch.work(3)]
    compare(module, [batch.numbers(6, 64), *pools, *rest], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("element", [i8, i32, f64], ids=str)
def test_pages_hold_no_elements_but_those_that_keys_are_rounded_to(element: Attribute) -> None:
    with pytest.raises(VerifyException, match=f"pages of {element}: f16, bf16 or f32"):
        PagesType.of(element, "pages", 2, PAGE, 32, 0)


@pytest.mark.parametrize("page", [-1, COUNT])
def test_writing_to_a_page_that_is_not_there_is_an_error(page: int) -> None:
    def build(body: Body) -> SSAValue:
        pages, x = body.arg(pool("f16 rows")), body.arg("f32[T, 2, 32]")
        where = batch_arguments(body, "positions", "sequence", "table")
        return body.add(cache.WriteOp(pages, x, *where))

    batch = BATCHES["one token"]
    arrays = [contents(pool("f16 rows")), batch.numbers(2, 32), batch.positions, batch.sequence]
    with pytest.raises(InputError, match=r"cache\.write"):
        Run(module_of(build, "rows"), "lower-groups")([*arrays, np.full_like(batch.table, page)])
