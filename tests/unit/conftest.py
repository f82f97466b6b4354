"""Lets the tests beside this file import `plan_builder`, `group_module` and `ggml_blocks`.

No folder of tests is on the path.
"""

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).parent


def _load(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


for _path in (
    HERE.parent / "models" / "ggml_blocks.py",
    HERE / "plan_builder.py",
    HERE / "group_module.py",
):
    if _path.stem not in sys.modules:
        _load(_path)
