"""Operators that the box does not know, from tables that come before its own."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx_graphs import declared, graph_of, model_from, of, saved

import lamina
from lamina.dialects import nn
from lamina.errors import UnsupportedError
from lamina.frontend.onnx.examiner import examine
from lamina.frontend.onnx.known import KNOWN
from lamina.frontend.onnx.node import Node
from lamina.plugins import manager


def swish(node: Node):
    x = node.binary(nn.MulOp, node.x(), node.like(node.get_float("beta", 1.0), node.x()))
    return node.binary(nn.MulOp, node.x(), node.typed(nn.SigmoidOp(x.value)))


TABLE = {
    ("acme", "Swish"): [(1, swish)],
    ("", "Relu"): [(1, lambda node: node.unary(nn.NegOp, node.x()))],
}
X = declared("x", shape=["n"])


@pytest.fixture
def with_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    box = manager.operators()
    monkeypatch.setattr(KNOWN, "tables", lambda: [TABLE, *box])


def model(folder: Path, *nodes) -> Path:
    graph = graph_of(list(nodes), [X], ["y"])
    return saved(model_from(graph, domains={"acme": 1}), folder)


@pytest.mark.usefixtures("with_plugin")
def test_a_converter_of_a_plugin_serves_its_domain(tmp_path: Path) -> None:
    path = model(tmp_path, of("Swish", "x", "y", domain="acme", beta=2.0))
    x = np.linspace(-3, 3, 7, dtype=np.float32)
    made = lamina.compile(lamina.read(path), "cpu")
    np.testing.assert_allclose(made(x)["y"], x / (1 + np.exp(-2 * x)), rtol=1e-5, atol=1e-7)
    assert not examine(path).findings


@pytest.mark.usefixtures("with_plugin")
def test_a_converter_of_a_plugin_comes_before_that_of_the_box(tmp_path: Path) -> None:
    made = lamina.compile(lamina.read(model(tmp_path, of("Relu", "x", "y"))), "reference")
    assert made(np.array([1, -2], np.float32))["y"].tolist() == [-1, 2]


def test_without_it_the_operator_is_refused_by_its_full_name(tmp_path: Path) -> None:
    path = model(tmp_path, of("Swish", "x", "y", domain="acme"))
    with pytest.raises(UnsupportedError, match=r"acme\.Swish of operator set 1 is not supported"):
        lamina.read(path)


def test_the_package_onnx_is_imported_only_for_a_model() -> None:
    code = "import sys, lamina, lamina.cli.app; from lamina.plugins import manager; manager.manager(); print('onnx' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_without_the_package_onnx_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch
) -> None:
    path = model(tmp_path, of("Relu", "x", "y"))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'lamina\[onnx\]'"):
        lamina.read(path)
