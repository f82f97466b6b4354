"""For which ranges of rows a step is compiled apart."""

import pytest
from group_module import module_of
from page_batch import attention, pool
from xdsl.dialects.builtin import ModuleOp

from lamina.dialects import nn
from lamina.dialects.text import parse_module
from lamina.dialects.tile import values
from lamina.plugins import manager


def module(rows: str, state: str = "") -> ModuleOp:
    x, y = (f'tensor<?x{shape}xf32, #nn.dims<["{rows}"]>>' for shape in ("8", "1x16"))
    pool = f', %pool: {state} {{lamina.state = "k"}}' if state else ""
    text = f"""
    func.func @forward(%x: {x}, %w: tensor<1x8x16xf32>{pool}) -> {y} {{
      %y = nn.dot_general %x, %w {{contract = [[1, 1]]}} : ({x}, tensor<1x8x16xf32>) -> {y}
      func.return %y : {y}
    }}"""
    return parse_module(manager.context(), text, "text")


def bounds(of: ModuleOp, asked: str = "1") -> list[int]:
    for each in manager.parse_pipeline(f"outline-groups,choose-variants{{bounds={asked}}}"):
        each.apply(manager.context(), of)
    return [bound for op in of.walk() if isinstance(op, nn.SwitchOp) for bound in values(op.bounds)]


def test_one_row_of_one_extent_is_compiled_apart() -> None:
    assert bounds(module("T")) == [1]


def test_one_row_of_several_extents_is_not() -> None:
    assert bounds(module("B*L")) == []


def test_more_rows_of_several_extents_are_where_asked_for() -> None:
    assert bounds(module("B*L"), "1,8") == [8]


def test_one_row_of_several_extents_is_where_a_state_goes_on() -> None:
    assert bounds(module("B*L", "tensor<4xf32>")) == [1]


@pytest.mark.parametrize("rows", ["2*T", "T + 1"])
def test_rows_need_not_be_the_extent_itself(rows: str) -> None:
    assert bounds(module(rows)) == [1]


def test_attention_to_pages_has_bounds_of_its_own() -> None:
    kinds = pool("f16 tiles"), pool("f16 rows")
    of = module_of(lambda body: attention(body, kinds, 2, 1), "attention")
    assert bounds(of, "1 attention=16") == [1, 16]
    assert bounds(module("T"), "1 attention=16") == [1]


def products(larger: int) -> ModuleOp:
    """A product of one row for each image, and one of several with weights `larger` times as large."""
    wide = f'tensor<?x{8 * larger}xf32, #nn.dims<["7*N"]>>'
    text = f"""
    func.func @forward(%x: tensor<?x8xf32, #nn.dims<["N"]>>, %w: tensor<1x8x16xf32>,
        %p: {wide}, %v: tensor<1x{8 * larger}x16xf32>)
        -> (tensor<?x1x16xf32, #nn.dims<["N"]>>, tensor<?x1x16xf32, #nn.dims<["7*N"]>>) {{
      %y = nn.dot_general %x, %w {{contract = [[1, 1]]}}
        : (tensor<?x8xf32, #nn.dims<["N"]>>, tensor<1x8x16xf32>)
        -> tensor<?x1x16xf32, #nn.dims<["N"]>>
      %z = nn.dot_general %p, %v {{contract = [[1, 1]]}}
        : ({wide}, tensor<1x{8 * larger}x16xf32>) -> tensor<?x1x16xf32, #nn.dims<["7*N"]>>
      func.return %y, %z : tensor<?x1x16xf32, #nn.dims<["N"]>>, tensor<?x1x16xf32, #nn.dims<["7*N"]>>
    }}"""
    return parse_module(manager.context(), text, "text")


def test_one_row_is_not_where_most_weights_meet_several_rows_of_each() -> None:
    assert bounds(products(1)) == [1]
    assert bounds(products(2)) == []
