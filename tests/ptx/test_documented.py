import re
from pathlib import Path

import pytest
from launching import entry

PAGE = Path(__file__).parents[2] / "docs" / "ptx.md"
SCALE = """
.reg .b32 %n; ld.param.u32 %n, [n]; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 128, %r0;
setp.ge.u32 %p0, %r0, %n; @%p0 ret; mad.wide.u32 %rd9, %r0, 4, %rd0; ld.global.f32 %f0, [%rd9];
.reg .f32 %by; ld.param.f32 %by, [by]; mul.f32 %f0, %f0, %by; st.global.f32 [%rd9], %f0;
"""


def test_the_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = entry(SCALE).replace("entry k(", "entry scale(")
    text = text.replace(".param .u64 p0)", ".param .u64 p0, .param .u32 n, .param .f32 by)")
    (tmp_path / "kernel.ptx").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.startswith("[2. 2. 2.")
