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


@pytest.fixture
def refusal() -> Callable[..., str]:
    """Return the message with which `read(path)` refuses, quickly and in little memory."""

    def refuse(
        read: Callable[[Path], object], path: Path, error: type[LaminaError] = FormatError
    ) -> str:
        tracemalloc.start()
        start = time.perf_counter()
        with pytest.raises(error) as caught:
            read(path)
        seconds, (_, peak) = time.perf_counter() - start, tracemalloc.get_traced_memory()
        tracemalloc.stop()
        size = path.stat().st_size if path.is_file() else 0
        assert seconds < 0.5
        assert peak < 2 * size + 1_000_000
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refuse
