"""Fixtures that write tiny checkpoints and read them.

The tests beside this file can import `checkpoints`, `ragged` and the NumPy models by their bare
names: no folder of tests is on the import path.
"""

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lamina
from lamina.frontend.model import Model
from lamina.targets.base import Executable

if TYPE_CHECKING:
    from checkpoints import Checkpoint

HERE = Path(__file__).parent
MODULES = (
    "ggml_blocks",
    "numpy_llama",
    "numpy_gpt2",
    "numpy_bert",
    "checkpoints",
    "decoding",
    "ragged",
)


def _load(path: Path) -> None:
    if path.stem in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


for _path in (
    HERE.parent / "frontend" / "gguf_writer.py",
    *(HERE / f"{name}.py" for name in MODULES),
):
    _load(_path)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> "Callable[[str], tuple[Checkpoint, Model]]":
    """Return a tiny checkpoint by name, and the model read from it."""
    from checkpoints import CHECKPOINTS

    @cache
    def read(name: str) -> "tuple[Checkpoint, Model]":
        checkpoint = CHECKPOINTS[name]()
        return checkpoint, lamina.read(checkpoint.write(tmp_path_factory.mktemp(name)))

    return read


@pytest.fixture(scope="session")
def meaning() -> "Callable[[Model], Executable]":
    """Return what a model's imported graph computes, by its operations' meanings."""
    return lambda model: lamina.compile(model, target="reference", pipeline=())
