import numpy as np

from lamina.dialects.text import parse_module
from lamina.plugins import manager
from lamina.targets.module_text import ModuleText, module_of
from lamina.targets.reference.prepare import prepare

TEXT = """
func.func @prepare(
  %a: tensor<4xf32> {lamina.weight = "a"}, %b: !quant.blocks<"q8_0", 32 : i64, 64 : i64>
  {lamina.weight = "b"}
) -> (
  tensor<4xf32> {lamina.packed = "small"}, tensor<2x2x8x16x4xi8> {lamina.packed = "quants"},
  tensor<2x2x16xf16> {lamina.packed = "scales"}
) {
  %q, %d = quant.pack %b
    : (!quant.blocks<"q8_0", 32 : i64, 64 : i64>) -> (tensor<2x2x8x16x4xi8>, tensor<2x2x16xf16>)
  func.return %a, %q, %d : tensor<4xf32>, tensor<2x2x8x16x4xi8>, tensor<2x2x16xf16>
}
"""
MODULE = parse_module(manager.context(), TEXT, "the test")
WEIGHTS = {"a": np.ones(4, np.float32), "b": np.ones((32, 68), np.uint8)}


def test_the_largest_results_come_first() -> None:
    assert [name for name, _ in prepare(MODULE, WEIGHTS)] == ["quants", "scales", "small"]


def test_a_result_is_made_where_it_is_wanted_if_it_fits() -> None:
    places = {"quants": np.empty((2, 2, 8, 16, 4), np.int8), "scales": np.empty(3, np.float16)}
    found = dict(prepare(MODULE, WEIGHTS, places))
    elsewhere = dict(prepare(MODULE, WEIGHTS))
    assert found["quants"] is places["quants"]
    assert found["scales"].shape == (2, 2, 16)
    assert all(np.array_equal(found[name], elsewhere[name]) for name in elsewhere)


def test_a_text_that_has_its_module_is_not_read_and_is_that_text() -> None:
    text = ModuleText.of(MODULE)
    assert module_of(text, "the test") is MODULE
    assert str(module_of(bytes(text), "the test")).encode() == text
