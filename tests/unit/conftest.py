"""Lets the tests beside this file import `plan_builder` and `group_module`.

No folder of tests is on the path.
"""

import importlib.util
import sys
from pathlib import Path


def _load(name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


for _name in ("plan_builder", "group_module"):
    if _name not in sys.modules:
        _load(_name)
