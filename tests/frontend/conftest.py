"""Fixtures that write model files, and the measure of a refusal."""

import json
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import gguf_writer
import pytest

from lamina.errors import FormatError, LaminaError


@pytest.fixture(scope="session")
def gguf() -> ModuleType:
    """The pieces of a GGUF file, and `gguf_bytes` for a whole one."""
    return gguf_writer


@pytest.fixture
def write_gguf(tmp_path: Path) -> Callable[..., Path]:
    """Write a valid GGUF file from metadata and tensors; return its path."""

    def write(metadata: Mapping[str, object], tensors: Mapping[str, object], **rest: int) -> Path:
        path = tmp_path / "model.gguf"
        path.write_bytes(gguf_writer.gguf_bytes(metadata, tensors, **rest))
        return path

    return write


@pytest.fixture
def write_json(tmp_path: Path) -> Callable[..., Path]:
    """Write a JSON file; return its folder."""

    def write(values: object, name: str = "config.json") -> Path:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(values))
        return tmp_path

    return write


@pytest.fixture
def traced() -> Callable[..., int]:
    """Return the most bytes that Python held at once while `act` ran and its result lived."""

    def trace(act: Callable[[], object]) -> int:
        tracemalloc.start()
        try:
            act()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return trace


def seconds(read: Callable[[Path], object], path: Path, error: type[LaminaError]) -> float:
    """Return how long it takes `read(path)` to refuse."""
    start = time.perf_counter()
    with pytest.raises(error):
        read(path)
    return time.perf_counter() - start


@pytest.fixture
def refusal() -> Callable[..., str]:
    """Return the message of `read(path)`, which refuses within 0.1 s and in little memory.

    That is the memory of twice the file, and 1 MB.
    """

    def refuse(
        read: Callable[[Path], object], path: Path, error: type[LaminaError] = FormatError
    ) -> str:
        size = path.stat().st_size if path.is_file() else 0
        # A busy machine is slow now and then, a slow refusal always.
        assert any(seconds(read, path, error) < 0.1 for _ in range(10))
        tracemalloc.start()
        with pytest.raises(error) as caught:
            read(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2 * size + 1_000_000
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refuse
