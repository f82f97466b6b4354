"""Reading a file makes its graph, to find its faults, unless it gave one without any before."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from lamina.errors import FormatError
from lamina.frontend.model import Model, Weights
from lamina.known_imports import check_import


@dataclass
class Made:
    """Counts how often a graph was made."""

    fault: str = ""
    count: int = 0

    def graph(self) -> ModuleOp:
        self.count += 1
        if self.fault == "error":
            raise FormatError("the file gives no graph")
        if self.fault:
            warnings.warn(self.fault, stacklevel=2)
        return ModuleOp([])

    def read(self, stamp: bytes = b"one") -> Model:
        model = Model(self.graph, Weights((), "the test"), stamp=stamp)
        check_import(model)
        return model


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))


def test_the_graph_of_a_file_is_made_once() -> None:
    made = Made()
    made.read()
    again = made.read()
    assert made.count == 1
    assert isinstance(again.module, ModuleOp)


def test_the_graph_of_another_file_is_made() -> None:
    made = Made()
    made.read(b"one")
    made.read(b"two")
    assert made.count == 2


def test_faults_are_said_each_time() -> None:
    for _ in range(2):
        with pytest.raises(FormatError, match="no graph"):
            Made("error").read()
        with pytest.warns(UserWarning, match="odd"):
            Made("odd").read(b"two")


def test_without_a_cache_the_graph_is_made_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DISK_CACHE", "off")
    made = Made()
    made.read()
    made.read()
    assert made.count == 2
