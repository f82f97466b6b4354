"""A schedule that its product or the registers have no room for is refused, with the numbers."""

import pytest
from group_module import Body, module_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import lamina
from lamina.compiler import lower
from lamina.dialects import nn, quant
from lamina.dialects.dims import Dim
from lamina.errors import InputError, LoweringError
from lamina.passes.schedule_groups import ScheduleGroupsPass


def floats(**schedule: int) -> ModuleOp:
    """A product with 96 packed columns of f32."""

    def build(body: Body) -> SSAValue:
        x, w = body.arg("f32[T, 32]"), body.arg("f32[6, 32, 16]")
        y = body.add(nn.DotGeneralOp(x, w, [(1, 1)]))
        return body.add(nn.ReshapeOp(y, [Dim.symbol("T"), 96]))

    return module_of(build, "linear", **schedule)


def integers(**schedule: int) -> ModuleOp:
    """A product of 8-bit numbers, with 96 columns of 4 bits."""

    def build(body: Body) -> SSAValue:
        weights = [body.arg("i8[6, 1, 4, 16, 4]"), body.arg("f16[6, 1, 16]")]
        x = [body.arg("i8[T, 32]"), body.arg("f32[T, 1]"), body.arg("f32[T, 1]")]
        return body.add(quant.LinearOp(weights, x, 96, zero=8))

    return module_of(build, "linear", **schedule)


def plain(**schedule: int) -> ModuleOp:
    """A product of two tensors."""

    def build(body: Body) -> SSAValue:
        a, b = body.arg("f32[A, 32]"), body.arg("f32[32, B]")
        return body.add(nn.DotGeneralOp(a, b, [(1, 0)]))

    return module_of(build, "dot", **schedule)


REFUSED = [
    (floats, {"m": 0, "n": 48}, r"group g asks for .* m=0 n=48 .* sizes start at 1"),
    (floats, {"m": -4, "n": 48}, "m=-4 .* sizes start at 1"),
    (floats, {"m": 4, "n": 48, "k": 0}, "k=0: sizes start at 1"),
    (floats, {"m": 4, "n": 48, "k": 100_000}, "k=100000: .* k ends at 256"),
    (floats, {"m": 4, "n": 48, "r": 0}, "r=0 .* sizes start at 1"),
    (floats, {"m": 1, "n": 7}, "n=7 r=7 .* multiples of 16"),
    (floats, {"m": 4, "n": 40}, "n=40 .* multiples of 16"),
    (floats, {"m": 4, "n": 64}, "n=64 .* n divides the product's 96 columns"),
    (floats, {"m": 4, "n": 192}, "n=192 .* n divides the product's 96 columns"),
    (floats, {"m": 4, "n": 48, "r": 32}, "r=32 .* r divides n"),
    (floats, {"m": 4, "n": 48, "b": 64}, "bands of b=64: n divides b"),
    (floats, {"m": 4, "n": 32, "b": 64}, "b divides the product's 96 columns"),
    (floats, {"m": 129, "n": 48}, "m=129 .* take 129 registers of 16, at most 128 fit"),
    (floats, {"m": 32, "n": 96, "r": 96}, "take 192 registers"),
    (
        floats,
        {"m": 17, "n": 16, "k": 256},
        "k=256: m \\* r \\* k are 4352 products .* at most 4096",
    ),
    (integers, {"m": 65, "n": 48}, "m=65 .* take 130 registers"),
    (plain, {"m": 0, "n": 64}, "group g asks for .* m=0 n=64: sizes start at 1"),
    (plain, {"m": 64, "n": 64}, "m=64 n=64: at most 2048 sums fit"),
]


@pytest.mark.parametrize(("module", "schedule", "told"), REFUSED)
def test_a_tile_that_does_not_fit_is_refused(module, schedule, told) -> None:
    with pytest.raises(LoweringError, match=told):
        lower(module(**schedule), "reference", pipeline="lower-groups")


FITTING = [
    (floats, {"m": 128, "n": 48, "r": 16}),
    (floats, {"m": 1, "n": 96, "k": 256}),
    (floats, {"m": 16, "n": 16, "k": 256}),
    (integers, {"m": 64, "n": 96, "r": 16}),
    (plain, {"m": 32, "n": 64}),
]


@pytest.mark.parametrize(("module", "schedule"), FITTING)
def test_the_largest_tiles_become_kernels(module, schedule) -> None:
    lowered = lower(module(**schedule), "reference", pipeline="lower-groups")
    assert "tile.kernel @g" in str(lowered)


OPTIONS = [
    ("rows=0", "schedule-groups: rows is 0: expected a whole number from 1 to 128"),
    ("rows=100000", "rows is 100000: expected"),
    ("few=7", "few is 7: expected a multiple of 16"),
    ("float-columns=0", "float-columns is 0: expected"),
    ("k=-1", "k is -1: expected a whole number from 1 to 256"),
]


@pytest.mark.parametrize(("option", "told"), OPTIONS)
def test_an_option_that_no_tile_can_have_is_refused(option: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        lamina.compile(floats(), target="cpu", pipeline=f"schedule-groups{{{option}}}", weights={})


def test_a_size_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match=r"few is 16\.0: expected a whole number"):
        ScheduleGroupsPass(few=16.0)  # type: ignore[arg-type]
