"""Sizes that no memory has are refused in a sentence, wherever they come from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lamina
from lamina.errors import FormatError, InputError, LoweringError
from lamina.frontend.model import Model

Command = Callable[..., tuple[int, str, str]]

ROWS = 'tensor<?x4xf32, #nn.dims<["N"]>>'
EXP = f"""
func.func @forward(%x: {ROWS} {{lamina.input = "x"}}) -> ({ROWS} {{lamina.output = "y"}}) {{
  %y = nn.exp %x : {ROWS}
  func.return %y : {ROWS}
}}
"""
X, Y = (f'tensor<?x?xf32, #nn.dims<["N", "{name}"]>>' for name in "MN")
OUTER = f"""
func.func @forward(%x: {X} {{lamina.input = "x"}}) -> ({Y} {{lamina.output = "y"}}) {{
  %y = nn.dot_general %x, %x {{contract = [[1, 1]]}} : ({X}, {X}) -> {Y}
  func.return %y : {Y}
}}
"""
CONSTANT = """
func.func @forward() -> (tensor<9999999999xf32> {lamina.output = "y"}) {
  %y = arith.constant dense<0.0> : tensor<9999999999xf32>
  func.return %y : tensor<9999999999xf32>
}
"""
TARGETS = ("cpu", "reference")


def read(folder: Path, text: str) -> Model:
    (path := folder / "m.mlir").write_text(text, encoding="utf-8")
    return lamina.read(path)


@pytest.mark.parametrize("extent", [2**48, 2**63 - 1, 2**63, 10**30])
@pytest.mark.parametrize("kind", ["tensor", "memref", "vector"])
def test_a_type_that_no_memory_holds_is_refused_in_its_place(
    tmp_path: Path, kind: str, extent: int
) -> None:
    text = f'"test.op"() {{t = {kind}<0x{extent}x2xf32>}} : () -> ()'
    with pytest.raises(FormatError, match=r"m\.mlir:1:18: the type has more than \d+ elements"):
        read(tmp_path, text)


def test_a_constant_that_no_memory_holds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="the constant has more than 1048576 elements"):
        read(tmp_path, CONSTANT)


def test_a_factor_beyond_64_bits_is_refused(tmp_path: Path) -> None:
    model = read(tmp_path, EXP.replace('"N"', '"99999999999999999999*N"'))
    with pytest.raises(LoweringError, match="the number 99999999999999999999, which is beyond"):
        lamina.compile(model)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [2**21, 2**32, 2**40])
def test_a_result_that_no_memory_holds_is_refused(tmp_path: Path, target: str, rows: int) -> None:
    exe: Any = lamina.compile(read(tmp_path, OUTER), target)
    with pytest.raises(InputError, match="there is no memory for"):
        exe(np.zeros((rows, 0), np.float32))
    assert exe(np.zeros((3, 0), np.float32))["y"].tolist() == [[0.0] * 3] * 3


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("N=99999999999", "there is no memory for input 'x' of shape (99999999999, 4), 3199"),
        ("N=999999999999999999", "there is no memory for input 'x'"),
        ("N=1000000000000000000", "--dim N: expected at most 18 digits, got 19"),
        (f"N={'9' * 5000}", "--dim N: expected at most 18 digits, got 5000"),
        ("Q=4", "--dim Q: the model has no such symbolic extent (there are N)"),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_a_wrong_extent_of_the_command_line_is_named(
    command: Command, tmp_path: Path, target: str, sizes: str, message: str
) -> None:
    read(tmp_path, EXP)
    given = ("--random", "--dim", sizes, "--target", target)
    code, out, err = command("run", tmp_path / "m.mlir", *given)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"error: {message}")


def test_inspect_names_an_extent_that_there_is_not(command: Command, tmp_path: Path) -> None:
    read(tmp_path, EXP)
    assert command("inspect", tmp_path / "m.mlir", "--dim", "N=999999999999999999")[0] == 0
    code, _, err = command("inspect", tmp_path / "m.mlir", "--dim", "Q=4")
    assert code == 1
    assert "--dim Q: the model has no such symbolic extent (there are N)" in err
