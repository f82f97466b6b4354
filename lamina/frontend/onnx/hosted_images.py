"""What operators on images mean: files of images decoded, and regions pooled."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lamina.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from lamina.frontend.onnx.hosted import Call

Array = npt.NDArray[Any]

_FORMATS: Final = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""The files that the standard names, of those that Pillow would open."""

_PIXELS: Final = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


def _decoded(call: Call) -> Sequence[Array]:
    """An image [rows, columns, channels] of bytes from those of its file."""
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError(
            "ImageDecoder needs Pillow: pip install 'lamina[onnx-images]'"
        ) from None
    wanted = call.get("pixel_format", b"RGB").decode("utf-8", "replace")
    if wanted not in _PIXELS:
        raise InputError(f"ImageDecoder: pixel_format is {wanted!r}, expected {', '.join(_PIXELS)}")
    file = io.BytesIO(np.ascontiguousarray(call.x(), np.uint8).tobytes())
    try:
        with Image.open(file, formats=_FORMATS) as image:
            pixels = np.array(image.convert(_PIXELS[wanted]), np.uint8)
    except Exception as error:
        # A damaged file may have any of Pillow's decoders raise anything.
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(error, Image.UnidentifiedImageError):
            what = f"it is none of {', '.join(_FORMATS)}"
        raise InputError(f"ImageDecoder: the image cannot be decoded: {what}") from error
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    return [np.ascontiguousarray(pixels[:, :, ::-1] if wanted == "BGR" else pixels)]


def _regions(call: Call) -> Sequence[Array]:
    """The largest elements of parts of regions (Girshick 2015), 0 for parts without any."""
    x, rois = call.x(0), call.x(1).astype(np.float64)
    rows, columns = (int(n) for n in call.get("pooled_shape", ()))
    scale = float(call.get("spatial_scale", 1.0))
    found = np.zeros((len(rois), x.shape[1], rows, columns), x.dtype)
    for n, (batch, *corners) in enumerate(rois.tolist()):
        if not 0 <= batch < x.shape[0]:
            raise InputError(f"{call.op}: a region of image {batch:g} of {x.shape[0]}")
        left, top, right, bottom = (int(np.floor(each * scale + 0.5)) for each in corners)
        down = _parts(top, bottom, rows, x.shape[2])
        across = _parts(left, right, columns, x.shape[3])
        for i, (y1, y2) in enumerate(down):
            for j, (x1, x2) in enumerate(across):
                part = x[int(batch), :, y1:y2, x1:x2]
                if part.size:
                    found[n, :, i, j] = part.max((1, 2))
    return [found]


def _parts(first: int, last: int, count: int, size: int) -> list[tuple[int, int]]:
    """Return where parts of a region begin and end along a dimension."""
    step = max(last - first + 1, 1) / count
    edges = [(int(np.floor(i * step)), int(np.ceil((i + 1) * step))) for i in range(count)]
    return [(min(max(a + first, 0), size), min(max(b + first, 0), size)) for a, b in edges]


IMAGE_OPERATORS: Final[Mapping[str, Callable[[Call], Sequence[Array]]]] = {
    "ImageDecoder": _decoded,
    "MaxRoiPool": _regions,
}
"""The operators of the standard that run so, by name."""
