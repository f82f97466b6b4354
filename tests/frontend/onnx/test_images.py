"""Files of images are decoded by meaning, and damaged ones are the call's error; regions pooled."""

import io
import sys

import numpy as np
import pytest
from onnx_graphs import declared, graph_of, model_from, of, run
from PIL import Image

from lamina.errors import InputError, UnsupportedError

pytestmark = [
    pytest.mark.onnx,
    pytest.mark.filterwarnings("ignore:.*by its NumPy meaning"),
]

PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 9


def file_of(kind: str = "PNG") -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, kind)
    return np.frombuffer(file.getvalue(), np.uint8)


def decoded(data: np.ndarray, **attributes: str) -> np.ndarray:
    node = of("ImageDecoder", "x", "y", **attributes)
    graph = graph_of([node], [declared("x", np.uint8(0), ["n"])], ["y"])
    return run(model_from(graph, 20), data)[0]


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_pixels_are_what_the_file_has(kind: str) -> None:
    assert np.array_equal(decoded(file_of(kind)), PIXELS)
    assert np.array_equal(decoded(file_of(kind), pixel_format="BGR"), PIXELS[:, :, ::-1])


def test_an_image_may_be_wanted_in_grey() -> None:
    grey = decoded(file_of(), pixel_format="Grayscale")
    weights = np.array([0.299, 0.587, 0.114])
    assert grey.shape == (2, 3, 1)
    assert np.allclose(grey[:, :, 0], PIXELS @ weights, atol=1)


@pytest.mark.parametrize("cut", [0, 8, 40])
def test_a_damaged_file_is_an_error_of_the_call_that_names_the_node(cut: int) -> None:
    with pytest.raises(InputError, match=r"node 'y': .*cannot be decoded"):
        decoded(file_of()[:cut])


def test_an_image_of_too_many_pixels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2)
    with pytest.raises(InputError, match=r"exceeds limit"):
        decoded(file_of())


def test_without_pillow_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_of()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'lamina\[onnx-images\]'"):
        decoded(file)


def test_regions_are_pooled_in_parts() -> None:
    x = np.arange(2 * 6 * 6, dtype=np.float32).reshape(2, 1, 6, 6)
    rois = np.array([[0, 0, 0, 3, 3], [1, 2, 1, 5, 5], [0, 9, 9, 9, 9]], np.float32)
    node = of("MaxRoiPool", "x rois", "y", pooled_shape=[2, 2])
    inputs = [declared("x", x), declared("rois", rois)]
    (y,) = run(model_from(graph_of([node], inputs, ["y"])), x, rois)
    assert y[0, 0].tolist() == [[7, 9], [19, 21]]
    assert y[1, 0].tolist() == [[57, 59], [69, 71]]
    assert not y[2].any()
