"""The texts that say which products are scheduled alike."""

from collections.abc import Callable

import pytest
from group_module import Body, module_of
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from lamina.dialects import nn, quant
from lamina.dialects.dims import Dim
from lamina.passes.groups import Groups
from lamina.passes.schedules.cost_model import Linear
from lamina.passes.schedules.product_class import class_of, linear_of

T = Dim.symbol("T")
HEADS = ("i8[6, 1, 4, 16, 4]", "f16[6, 1, 16]", "f16[6, 1, 16]")


def halves(body: Body) -> SSAValue:
    """A product with weights in f16, in heads of 48."""
    x, w = body.arg("f32[T, 32]"), body.arg("f16[6, 32, 16]")
    y = body.add(nn.DotGeneralOp(x, body.add(nn.CastOp(w, f32)), [(1, 1)]))
    return body.add(nn.ReshapeOp(y, [T, 2, 48]))


def integers(body: Body) -> SSAValue:
    """A product of bytes with weights in 4 bits and offsets."""
    weights = [body.arg(text) for text in HEADS]
    x = [body.arg("i8[T, 32]"), body.arg("f32[T, 1]"), body.arg("f32[T, 1]")]
    return body.add(quant.LinearOp(weights, x, 96, zero=8))


def in_two_terms(body: Body) -> SSAValue:
    """The same in two terms, and scales of half a block in f32."""
    weights = [body.arg("i8[6, 1, 8, 16, 4]"), body.arg("f32[6, 2, 16]")]
    x = [body.arg("i8[T, 64]"), body.arg("f32[T, 2]"), body.arg("f32[T, 1]")]
    return body.add(quant.LinearOp(weights, x, 96))


def unpacked(body: Body) -> SSAValue:
    """A product of floats with weights in 4 bits."""
    weights = [body.arg(text) for text in HEADS]
    w = body.add(quant.DequantizeOp(weights, 96, 32))
    return body.add(nn.DotGeneralOp(body.arg("f32[T, 32]"), w, [(1, 1)]))


CLASSES = [
    (halves, "f16 K=32 N=96: cast dot_general reshape 2x48"),
    (integers, "int4/32+offset K=32 N=96: linear"),
    (in_two_terms, "int8/16 f32 by 2 terms K=32 N=96: linear"),
    (unpacked, "float of int4/32+offset K=32 N=96: dequantize dot_general"),
]


@pytest.mark.parametrize(("build", "text"), CLASSES)
def test_a_class_says_what_the_work_depends_on(
    build: Callable[[Body], SSAValue], text: str
) -> None:
    (group,) = Groups.of(module_of(build, "linear")).by_name.values()
    assert class_of(group, few=False) == f"linear many {text}"
    assert class_of(group, few=True) == f"linear few {text}"


def test_a_product_of_two_tensors_says_what_is_contracted() -> None:
    def build(body: Body) -> SSAValue:
        a, b = body.arg("f32[A, 4, 32]"), body.arg("f32[4, B, 32]")
        return body.add(nn.DotGeneralOp(a, b, [(2, 2)], [(1, 0)]))

    (group,) = Groups.of(module_of(build, "dot")).by_name.values()
    assert class_of(group, few=False) == "dot f32[?, 4, K=32] x f32[4, ?, K=32]: dot_general"


def test_other_groups_have_no_class() -> None:
    module = module_of(lambda body: body.add(nn.TanhOp(body.arg("f32[T, 8]"))), "rows")
    (group,) = Groups.of(module).by_name.values()
    assert class_of(group, few=False) is None


LINEARS = [
    (halves, Linear(32, 96, (1, 3, 6), weight=2.0)),
    (integers, Linear(32, 96, (1, 2, 3, 6), blocks=True, integer=True, weight=0.625)),
    (in_two_terms, Linear(32, 96, (1, 2, 3, 6), blocks=True, integer=True, sums=4, weight=1.25)),
    (unpacked, Linear(32, 96, (1, 2, 3, 6), blocks=True, weight=0.625)),
]


@pytest.mark.parametrize(("build", "linear"), LINEARS)
def test_a_tile_depends_on_weights_and_ends(
    build: Callable[[Body], SSAValue], linear: Linear
) -> None:
    (group,) = Groups.of(module_of(build, "linear")).by_name.values()
    assert linear_of(group, few=False) == linear
