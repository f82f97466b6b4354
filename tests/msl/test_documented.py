import re
from collections.abc import Callable
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "msl.md"
SCALE = """#include <metal_stdlib>
using namespace metal;
kernel void scale(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                  constant float& by [[buffer(2)]], uint at [[thread_position_in_grid]]) {
  if (at < 1000) y[at] = x[at] * by;
}
"""


def test_the_example_of_the_page_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    needs: Callable[..., str],
) -> None:
    needs("g++", package="g++")
    pytest.importorskip("clang.cindex")
    (tmp_path / "kernel.metal").write_text(SCALE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.startswith("[2. 2. 2.")
