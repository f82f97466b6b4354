from collections.abc import Callable

import pytest
from group_module import Body, module_of
from xdsl.dialects.builtin import f16
from xdsl.ir import SSAValue

from lamina.dialects import cache, nn, quant
from lamina.dialects.cache import PagesType
from lamina.passes.kernels.work import work_of

POOL = PagesType.of(f16, "pages", 2, 16, 32, 0)


def work(build: Callable[[Body], SSAValue]) -> dict[str, str]:
    """The work of a group, as text."""
    group = next(op for op in module_of(build, "rows").ops if isinstance(op, nn.GroupOp))
    return {kind: str(count) for kind, count in work_of(group).items()}


def integer_linear(body: Body) -> SSAValue:
    x = [body.arg("i8[T, 64]"), body.arg("f32[T, 2]"), body.arg("f32[T, 2]")]
    w = [body.arg("i8[2, 2, 4, 16, 4]"), body.arg("f16[2, 2, 16]")]
    return body.add(quant.LinearOp(w, x, 32, zero=8))


def float_linear(body: Body) -> SSAValue:
    return body.add(nn.DotGeneralOp(body.arg("f32[T, 8]"), body.arg("f32[4, 8]"), [(1, 1)]))


def byte_product(body: Body) -> SSAValue:
    return body.add(nn.DotGeneralOp(body.arg("i8[T, 8]"), body.arg("i8[4, 8]"), [(1, 1)]))


def gather(body: Body) -> SSAValue:
    return body.add(nn.GatherOp(body.arg("f32[100, 8]"), body.arg("i32[T]")))


def gather_of_blocks(body: Body) -> SSAValue:
    w = [body.arg("i8[2, 2, 4, 16, 4]"), body.arg("f16[2, 2, 16]")]
    table = body.add(quant.DequantizeOp(w, 32, 64, zero=8))
    return body.add(nn.GatherOp(table, body.arg("i32[T]")))


def slice_of_many(body: Body) -> SSAValue:
    return body.add(nn.SliceOp(body.arg("f32[T, 8]"), [0, 0], ["T", 2]))


def write(body: Body) -> SSAValue:
    batch = [body.arg("i32[T]"), body.arg("i32[T]"), body.arg("i32[S, B]")]
    return body.add(cache.WriteOp(body.arg(POOL), body.arg("f32[T, 2, 32]"), *batch))


def attention(body: Body) -> SSAValue:
    q, k, v = body.arg("f32[T, 2, 32]"), body.arg(POOL), body.arg(POOL)
    kinds = ("i32[T]", "i32[S + 1]", "i32[S, B]", "i32[W, 2]")
    batch = tuple(body.arg(kind) for kind in kinds)
    return body.add(cache.AttentionOp(q, k, v, batch, scale=1.0, block=1))  # pyright: ignore


def test_a_plain_kernel_moves_its_arguments_and_results() -> None:
    twice = lambda body: body.add(nn.NegOp(body.arg("f32[T, 3]")))  # noqa: E731
    assert work(twice) == {"bytes": "24*T", "float": "0", "integer": "0"}


def test_an_argument_that_is_read_twice_is_counted_once() -> None:
    def square(body: Body) -> SSAValue:
        x = body.arg("f32[T, 3]")
        return body.add(nn.MulOp(x, x))

    assert work(square)["bytes"] == "24*T"


@pytest.mark.parametrize(
    ("build", "kind", "count"),
    [
        (float_linear, "float", "64*T"),
        (byte_product, "integer", "64*T"),
        (integer_linear, "integer", "4096*T"),
    ],
)
def test_a_product_counts_two_operations_a_term(
    build: Callable[[Body], SSAValue], kind: str, count: str
) -> None:
    assert {name: n for name, n in work(build).items() if n != "0" and name != "bytes"} == {
        kind: count
    }


@pytest.mark.parametrize(
    ("build", "count"),
    [
        (gather, "36*T + min(32*T, 3200)"),
        (gather_of_blocks, "260*T + min(32*T, 1024) + min(4*T, 128)"),
        (slice_of_many, "16*T"),
        (write, "4*B*S + 392*T"),
    ],
)
def test_only_what_is_touched_of_a_large_argument_counts(
    build: Callable[[Body], SSAValue], count: str
) -> None:
    assert work(build)["bytes"] == count


def test_what_an_attention_does_depends_on_the_batch() -> None:
    assert work(attention) == {"bytes": "None", "float": "None", "integer": "0"}
