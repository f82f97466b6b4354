"""Texts on the adapter: kernels move and compare their codes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import declared, graph_of, model_from, of

import lamina
from lamina.frontend.onnx.frontend import model_of
from lamina.frontend.onnx.model_file import open_onnx

pytestmark = pytest.mark.gpu

WORDS = np.array(["eins", "zwei", "drei", ""], np.object_)
PLACES = np.array([3, 0, -2])


def labelled() -> onnx.ModelProto:
    """The words at some places, and whether they are those that are given."""
    given = helper.make_tensor_value_info("x", TensorProto.STRING, ["N"])
    nodes = [of("Gather", "v i", "y"), of("Equal", "y x", "same")]
    inputs = [declared("i", PLACES, ["N"]), given]
    return model_from(graph_of(nodes, inputs, ["y", "same"], {"v": WORDS}))


def test_texts_go_to_the_device_and_back(device) -> None:
    exe = lamina.compile(model_of(open_onnx(labelled())), "webgpu")
    found = exe(PLACES, ["", "ü", "drei"])
    assert found["y"].tolist() == ["", "eins", "drei"]
    assert found["same"].tolist() == [True, False, True]
