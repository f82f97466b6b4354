"""Transposes around reshapes: of channels that are shuffled, and of extents under other names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import tensor
from lamina.dialects.text import parse_module
from lamina.passes.reshaped_transposes import exchange
from lamina.plugins import manager
from lamina.targets.reference.executable import ReferenceExecutable

SHUFFLE = """
func.func @forward(%x: tensor<?x4x5x6xf32, #nn.dims<["N"]>> {lamina.input = "x"})
    -> (tensor<?x4x5x6xf32, #nn.dims<["N"]>> {lamina.output = "y"}) {
  %a = nn.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<?x4x5x6xf32, #nn.dims<["N"]>>)
    -> tensor<?x6x4x5xf32, #nn.dims<["N"]>>
  %b = nn.reshape %a : (tensor<?x6x4x5xf32, #nn.dims<["N"]>>)
    -> tensor<?x2x3x4x5xf32, #nn.dims<["N"]>>
  %c = nn.transpose %b {perm = array<i64: 0, 2, 1, 3, 4>}
    : (tensor<?x2x3x4x5xf32, #nn.dims<["N"]>>) -> tensor<?x3x2x4x5xf32, #nn.dims<["N"]>>
  %d = nn.reshape %c : (tensor<?x3x2x4x5xf32, #nn.dims<["N"]>>)
    -> tensor<?x6x4x5xf32, #nn.dims<["N"]>>
  %e = nn.transpose %d {perm = array<i64: 0, 2, 3, 1>} : (tensor<?x6x4x5xf32, #nn.dims<["N"]>>)
    -> tensor<?x4x5x6xf32, #nn.dims<["N"]>>
  func.return %e : tensor<?x4x5x6xf32, #nn.dims<["N"]>>
}"""

RENAMED = """
func.func @forward(%x: tensor<?x?x8xf32, #nn.dims<["A", "B"]>> {lamina.input = "x"})
    -> (tensor<?x?x8xf32, #nn.dims<["C", "B"]>> {lamina.output = "y"})
    attributes {lamina.equal = [["A", "C", "/node"]]} {
  %a = nn.transpose %x {perm = array<i64: 2, 0, 1>} : (tensor<?x?x8xf32, #nn.dims<["A", "B"]>>)
    -> tensor<8x?x?xf32, #nn.dims<["A", "B"]>>
  %b = nn.reshape %a {assumed} : (tensor<8x?x?xf32, #nn.dims<["A", "B"]>>)
    -> tensor<8x?x?xf32, #nn.dims<["C", "B"]>>
  %c = nn.transpose %b {perm = array<i64: 1, 2, 0>} : (tensor<8x?x?xf32, #nn.dims<["C", "B"]>>)
    -> tensor<?x?x8xf32, #nn.dims<["C", "B"]>>
  func.return %c : tensor<?x?x8xf32, #nn.dims<["C", "B"]>>
}"""

BRANCH = """
func.func @forward(%x: tensor<2x3x4xf32> {lamina.input = "x"}, %n: tensor<1xi64> {lamina.input = "n"})
    -> (tensor<4x2x3xf32> {lamina.output = "y"}) {
  %a = nn.transpose %x {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  nn.bind %n {symbols = ["c"], equal = []} : tensor<1xi64>
  %y = nn.switch {value = "c", bounds = array<i64: 0>} : tensor<4x2x3xf32> {
    nn.yield %a : tensor<4x2x3xf32>
  }, {
    %b = nn.transpose %a {perm = array<i64: 1, 2, 0>} : (tensor<4x2x3xf32>) -> tensor<2x3x4xf32>
    %c = nn.transpose %b {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
    %d = nn.relu %c : tensor<4x2x3xf32>
    nn.yield %d : tensor<4x2x3xf32>
  }
  func.return %y : tensor<4x2x3xf32>
}"""


def folded(text: str) -> ModuleOp:
    module = parse_module(manager.context(), text, "text")
    for each in manager.parse_pipeline("fold-transposes"):
        each.apply(manager.context(), module)
    module.verify()
    return module


def transposes(module: ModuleOp) -> list[str]:
    found = (op.perm for op in module.walk() if isinstance(op, nn.TransposeOp))
    return [str(perm) for perm in found]


def test_shuffled_channels_are_one_transpose_of_the_last_dimensions() -> None:
    assert transposes(folded(SHUFFLE)) == ["array<i64: 0, 1, 2, 4, 3>"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_shuffled_channels_are_those_that_they_were(count: int) -> None:
    x = np.arange(count * 120, dtype=np.float32).reshape(count, 4, 5, 6)
    before = parse_module(manager.context(), SHUFFLE, "text")
    for module in (before, folded(SHUFFLE)):
        y = ReferenceExecutable(module, {})(x=x)["y"]
        np.testing.assert_array_equal(y, x.reshape(-1, 4, 5, 2, 3).swapaxes(3, 4).reshape(x.shape))


def test_extents_of_another_name_leave_transposes_to_cancel() -> None:
    assert transposes(folded(RENAMED)) == []


def test_extents_that_are_not_said_to_be_equal_do_not() -> None:
    text = RENAMED.replace('["A", "C", "/node"]', '["8*A", "8*C", "/node"]')
    assert len(transposes(folded(text))) == 2


def test_transposes_in_branches_cancel_and_come_late_too() -> None:
    x = np.arange(-12, 12, dtype=np.float32).reshape(2, 3, 4)
    module = folded(BRANCH)
    y = ReferenceExecutable(module, {})(x=x, n=np.ones(1, np.int64))["y"]
    np.testing.assert_array_equal(y, np.maximum(x, 0).transpose(2, 0, 1))
    assert transposes(module) == ["array<i64: 2, 0, 1>"] * 2


def test_what_moves_dimensions_of_one_is_a_reshape() -> None:
    text = RENAMED.replace("x8xf32", "x1xf32").replace("<8x?", "<1x?")
    assert transposes(folded(text)) == []


@given(st.data())
def test_a_reshape_and_a_transpose_change_places(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    x = np.arange(np.prod(shape)).reshape(shape)
    z = x.transpose(order)
    parts = [[n] if n != 4 else data.draw(st.sampled_from([[4], [2, 2], [1, 4]])) for n in z.shape]
    target = [n for part in parts for n in part]
    cut = data.draw(st.integers(0, len(target)))
    target = [*target[:cut], int(np.prod(target[cut : cut + 2])), *target[cut + 2 :]]
    source = nn.ConstantOp(FloatAttr(0.0, f32), tensor(f32, [Dim.of(n) for n in z.shape])).y
    found = exchange(nn.ReshapeOp(source, target), order, Dim.__eq__)
    if found is not None:
        y = x.transpose(found.before).reshape([n.evaluate({}) for n in found.shape])
        np.testing.assert_array_equal(y.transpose(found.after), z.reshape(target))
