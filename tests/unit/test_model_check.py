from pathlib import Path

import pytest

from lamina.errors import InputError
from lamina.model_check import check

STAGE = """func.func @forward(%x: tensor<4xf32> {lamina.input = "x"}) -> (tensor<4xf32> {lamina.output = "y"}) {
  %y = nn.relu %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""


def test_a_stage_is_examined_by_reading_it(tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text(STAGE)
    found = check(tmp_path / "x.mlir")
    assert not found.findings
    assert found.count("compiled") == found.total == 1
    assert found.coverage == 1


def test_a_damaged_file_of_any_format_is_one_finding(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF\x03\0\0\0")
    (finding,) = check(tmp_path / "x.gguf").findings
    assert finding.code == "FORMAT"
    assert "x.gguf" in finding.message
    assert check(tmp_path / "x.gguf").coverage == 0


def test_what_is_no_model_is_an_error_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        check(tmp_path / "nothing")
