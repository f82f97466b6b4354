from pathlib import Path

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from lamina.dialects.quick_parser import QuickParser
from lamina.plugins import manager

IR = sorted((Path(__file__).parents[1] / "ir").glob("*.mlir"))
REPEATED = """
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32 >, %c: !plan.buffer<tensor<4xf32>>, %d: i1, %e: i16) {
  %g = "test.op"(%a) : (tensor<4xf32>) -> tensor<4xf32> // of <this>
  %h = "test.op"(%a) {t = tensor<4xf32>, u = !plan.buffer<tensor<4xf32>>} : (tensor<4xf32>) -> (vector<2xi1>)
  func.return
}
"""


def test_repeated_types_are_read_as_the_plain_parser_reads_them() -> None:
    plain = Parser(manager.context(), REPEATED).parse_module()
    assert str(QuickParser(manager.context(), REPEATED, "text").parse_module()) == str(plain)


@pytest.mark.parametrize("path", IR, ids=lambda path: path.stem)
def test_every_module_of_the_ir_tests_is_read_the_same(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    plain = Parser(manager.context(), text).parse_module()
    quick = QuickParser(manager.context(), text, "text").parse_module()
    assert plain.is_structurally_equivalent(quick)


def test_an_error_after_a_known_type_is_in_its_own_place() -> None:
    text = REPEATED.replace("(vector<2xi1>)", "(vector<2xi1>>)")
    with pytest.raises(ParseError) as plain:
        Parser(manager.context(), text).parse_module()
    with pytest.raises(ParseError) as quick:
        QuickParser(manager.context(), text, "text").parse_module()
    assert quick.value.span.start == plain.value.span.start


@pytest.mark.parametrize("before", ["", "func.func @f() { "])
def test_a_string_without_an_end_is_refused_at_once(before: str) -> None:
    with pytest.raises(ParseError, match="before closing string literal"):
        QuickParser(manager.context(), f'{before}"{"a" * 1000}\n', "text").parse_module()
