"""Lets the tests beside this file import the parsers and seeds that fuzzing uses."""

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).parent


def _load(path: Path) -> None:
    if path.stem in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


for _path in (
    HERE.parent / "frontend/gguf_writer.py",
    HERE / "fuzz_seeds.py",
    HERE / "fuzz_parsers.py",
):
    _load(_path)
