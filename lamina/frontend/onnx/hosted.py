"""What operators mean that no kernel serves: NumPy functions of a node's inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lamina.errors import InputError
from lamina.frontend.onnx.hosted_images import IMAGE_OPERATORS
from lamina.frontend.onnx.hosted_texts import TEXT_CASTS, TEXT_OPERATORS
from lamina.frontend.onnx.kinds import KINDS, Kind

if TYPE_CHECKING:
    from onnx import NodeProto

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Call:
    """One run of a node: its inputs (None where one is not given) and attributes.

    Texts are objects of str; `kinds` are the element types of the inputs.
    """

    op: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any]
    outputs: int
    kinds: Sequence[Kind | None]

    @staticmethod
    def of(proto: NodeProto, inputs: Mapping[str, Array], kinds: Mapping[str, Kind]) -> Call:
        """Return a run of a node on inputs by name."""
        from onnx import helper

        attributes = {each.name: helper.get_attribute_value(each) for each in proto.attribute}
        given = [inputs[name] if name else None for name in proto.input]
        own = [kinds.get(name) for name in proto.input]
        return Call(proto.op_type, given, attributes, len(proto.output), own)

    def x(self, index: int = 0) -> Array:
        """Return an input."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise InputError(f"{self.op}: input {index} is missing")
        return found

    def number(self, index: int, default: float) -> float:
        """Return an input of one element, or what stands for one that is not given."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return default if found is None or not found.size else found.ravel()[0].item()

    def get(self, name: str, default: Any) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)


Meaning = Callable[[Call], Sequence[Array]]


def _non_zero(call: Call) -> Sequence[Array]:
    x = np.atleast_1d(call.x())
    return [np.stack(np.nonzero(x)).astype(np.int64)]


def _compress(call: Call) -> Sequence[Array]:
    axis = call.get("axis", None)
    return [np.compress(call.x(1).astype(np.bool_), call.x(), axis)]


def _unique(call: Call) -> Sequence[Array]:
    x, axis = call.x(), call.get("axis", None)
    texts = None
    if x.dtype == np.object_:
        # NumPy orders no objects along an axis.
        texts, places = np.unique(x, return_inverse=True)
        x = places.reshape(x.shape)
    found, first, back, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    back = back.reshape(-1)
    if not call.get("sorted", 1):
        order = np.argsort(first)
        found = np.take(found, order, axis or 0)
        first, counts = first[order], counts[order]
        places = np.empty_like(order)
        places[order] = np.arange(order.size)
        back = places[back]
    found = found if texts is None else texts[found]
    outputs = [found, first.astype(np.int64), back.astype(np.int64), counts.astype(np.int64)]
    return outputs[: call.outputs]


def _non_max_suppression(call: Call) -> Sequence[Array]:
    boxes, scores = call.x(0).astype(np.float32), call.x(1)
    most, overlap = int(call.number(2, 0)), call.number(3, 0.0)
    least = call.number(4, -np.inf)
    centred = bool(call.get("center_point_box", 0))
    chosen: list[tuple[int, int, int]] = []
    for batch in range(scores.shape[0]):
        corners = _corners(boxes[batch], centred=centred)
        for group in range(scores.shape[1]):
            kept = _suppressed(corners, scores[batch, group], most, overlap, least)
            chosen += [(batch, group, n) for n in kept]
    return [np.array(chosen, np.int64).reshape(-1, 3)]


def _corners(boxes: Array, *, centred: bool) -> Array:
    """Return boxes as (low y, low x, high y, high x)."""
    if centred:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    a, b = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], 1)


def _suppressed(
    corners: Array, scores: Array, most: int, overlap: float, least: float
) -> list[int]:
    area = np.prod(corners[:, 2:] - corners[:, :2], 1)
    kept: list[int] = []
    for n in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == most or scores[n] <= least:
            break
        inner = np.minimum(corners[n, 2:], corners[kept, 2:]) - np.maximum(
            corners[n, :2], corners[kept, :2]
        )
        shared = np.prod(np.maximum(inner, 0), 1)
        union = area[n] + area[kept] - shared
        if not (shared > overlap * union).any():
            kept.append(n)
    return kept


def _random(call: Call) -> Sequence[Array]:
    like = call.op.endswith("Like")
    shape = call.x().shape if like else tuple(call.get("shape", ()))
    number = call.get("dtype", None)
    usual = call.x().dtype if like else np.dtype(np.float32)
    dtype = KINDS[number].dtype if number else usual
    generator = _generator(call)
    if "Normal" in call.op:
        found = generator.normal(call.get("mean", 0.0), call.get("scale", 1.0), shape)
    else:
        found = generator.uniform(call.get("low", 0.0), call.get("high", 1.0), shape)
    return [found.astype(dtype)]


def _bernoulli(call: Call) -> Sequence[Array]:
    x, number = call.x(), call.get("dtype", None)
    found = _generator(call).uniform(size=x.shape) < x
    return [found.astype(KINDS[number].dtype if number else x.dtype)]


def _multinomial(call: Call) -> Sequence[Array]:
    x, count = call.x().astype(np.float64), call.get("sample_size", 1)
    weight = np.exp(x - x.max(1, keepdims=True))
    upper = np.cumsum(weight / weight.sum(1, keepdims=True), 1)
    drawn = _generator(call).uniform(size=(x.shape[0], count))
    found = (drawn[:, :, None] > upper[:, None, :]).sum(2)
    return [found.astype(KINDS[call.get("dtype", 6)].dtype)]


def _generator(call: Call) -> np.random.Generator:
    seed = call.get("seed", None)
    return np.random.default_rng(None if seed is None else abs(hash(float(seed))))


def _dropout(call: Call) -> Sequence[Array]:
    x, ratio = call.x(), call.number(1, 0.5)
    training = len(call.inputs) > 2 and bool(call.number(2, 0))
    if not training or ratio == 0:
        return [x, np.ones(x.shape, np.bool_)][: call.outputs]
    kept = _generator(call).uniform(size=x.shape) >= ratio
    scaled = np.where(kept, x / (1 - ratio), 0).astype(x.dtype)
    return [scaled, kept][: call.outputs]


def _tf_idf(call: Call) -> Sequence[Array]:
    x = np.atleast_2d(call.x())
    shortest, longest = call.get("min_gram_length", 1), call.get("max_gram_length", 1)
    counts, places = list(call.get("ngram_counts", ())), list(call.get("ngram_indexes", ()))
    texts = [text.decode("utf-8", "surrogateescape") for text in call.get("pool_strings", ())]
    pool = list(call.get("pool_int64s", ())) or texts
    weights = list(call.get("weights", ())) or [1.0] * len(places)
    grams: dict[tuple[Any, ...], int] = {}
    for length, start in enumerate(counts, 1):
        end = counts[length] if length < len(counts) else len(pool)
        for at in range(start, end, length):
            grams[tuple(pool[at : at + length])] = len(grams)
    found = np.zeros((x.shape[0], max(places, default=-1) + 1), np.float32)
    for row, values in enumerate(x.tolist()):
        for length in range(shortest, longest + 1):
            # Single elements have no gaps between them.
            for skip in range(1 if length == 1 else call.get("max_skip_count", 0) + 1):
                step = skip + 1
                for at in range(len(values) - (length - 1) * step):
                    gram = grams.get(tuple(values[at : at + length * step : step][:length]))
                    if gram is not None:
                        found[row, places[gram]] += 1
    mode = call.get("mode", b"TF")
    scale = np.zeros(found.shape[1], np.float32)
    scale[places] = weights
    if mode == b"IDF":
        found = np.where(found > 0, scale, 0)
    elif mode == b"TFIDF":
        found = found * scale
    return [found.astype(np.float32).reshape((*call.x().shape[:-1], -1))]


def _roi_align(call: Call) -> Sequence[Array]:
    x, rois, batch = call.x(0), call.x(1).astype(np.float64), call.x(2)
    rows, columns = int(call.get("output_height", 1)), int(call.get("output_width", 1))
    ratio, scale = int(call.get("sampling_ratio", 0)), float(call.get("spatial_scale", 1.0))
    half = call.get("coordinate_transformation_mode", b"half_pixel") == b"half_pixel"
    highest = call.get("mode", b"avg") == b"max"
    found = np.zeros((len(rois), x.shape[1], rows, columns), x.dtype)
    for n, roi in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (float(at) * scale - (0.5 if half else 0.0) for at in roi)
        width, height = x2 - x1, y2 - y1
        if not half:
            width, height = max(width, 1.0), max(height, 1.0)
        tall, wide = height / rows, width / columns
        down = ratio if ratio > 0 else int(np.ceil(tall))
        across = ratio if ratio > 0 else int(np.ceil(wide))
        ys = y1 + (np.arange(rows)[:, None] + (np.arange(down) + 0.5) / down) * tall
        xs = x1 + (np.arange(columns)[:, None] + (np.arange(across) + 0.5) / across) * wide
        values = _bilinear(x[batch[n]].astype(np.float64), ys, xs, highest=highest)
        found[n] = values.astype(x.dtype)
    return [found]


def _bilinear(image: Array, ys: Array, xs: Array, *, highest: bool) -> Array:
    """Return means (or the largest parts) of samples ys[R, S], xs[Q, T] of image[C, H, W]."""
    y_low, y_high, y_part, y_in = _neighbours(ys, image.shape[1])
    x_low, x_high, x_part, x_in = _neighbours(xs, image.shape[2])

    def take(y: Array, x: Array) -> Array:
        return image[:, y[:, None, :, None], x[None, :, None, :]]

    a, b = y_part[:, None, :, None], x_part[None, :, None, :]
    inside = y_in[:, None, :, None] & x_in[None, :, None, :]
    corners = [
        take(y_low, x_low) * ((1 - a) * (1 - b)),
        take(y_low, x_high) * ((1 - a) * b),
        take(y_high, x_low) * (a * (1 - b)),
        take(y_high, x_high) * (a * b),
    ]
    if highest:
        each = np.maximum.reduce(corners)
        return np.where(inside, each, 0).max((3, 4))
    return np.where(inside, sum(corners), 0).mean((3, 4))


def _neighbours(places: Array, size: int) -> tuple[Array, Array, Array, Array]:
    inside = (places >= -1) & (places <= size)
    places = np.maximum(places, 0)
    low = np.minimum(np.floor(places).astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    part = np.where(low >= size - 1, 0.0, places - low)
    return low, high, part, inside


def _determinant(call: Call) -> Sequence[Array]:
    x = call.x()
    return [np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)]


def _mel_weights(call: Call) -> Sequence[Array]:
    bins, length, rate = (int(call.number(i, 0)) for i in range(3))
    low, high = call.number(3, 0.0), call.number(4, 0.0)

    def mel(hertz: float) -> float:
        return float(2595 * np.log10(1 + hertz / 700))

    edges = np.arange(bins + 2) * ((mel(high) - mel(low)) / (bins + 2)) + mel(low)
    places = ((length + 1) * (700 * (10 ** (edges / 2595) - 1)) // rate).astype(np.int64)
    found = np.zeros((length // 2 + 1, bins), np.float64)
    for n in range(bins):
        first, middle, last = (int(at) for at in places[n : n + 3])
        if middle == first:
            found[middle, n] = 1
        else:
            rise = np.arange(first, middle + 1)
            found[rise, n] = (rise - first) / (middle - first)
        if last > middle:
            fall = np.arange(middle, last)
            found[fall, n] = (last - fall) / (last - middle)
    return [found.astype(KINDS[call.get("output_datatype", 1)].dtype)]


HOSTED: Final[dict[str, Meaning]] = {
    "Bernoulli": _bernoulli,
    "Compress": _compress,
    "Det": _determinant,
    "MelWeightMatrix": _mel_weights,
    "Multinomial": _multinomial,
    "NonMaxSuppression": _non_max_suppression,
    "NonZero": _non_zero,
    "RandomNormal": _random,
    "RandomNormalLike": _random,
    "RandomUniform": _random,
    "RandomUniformLike": _random,
    "RoiAlign": _roi_align,
    "TfIdfVectorizer": _tf_idf,
    "Unique": _unique,
    **IMAGE_OPERATORS,
    **TEXT_OPERATORS,
}
"""The operators that run so, by domain, if it is not the standard's, and name."""

TRAINING: Final[dict[str, Meaning]] = {"Dropout": _dropout, **TEXT_CASTS}
"""Operators of which only a form runs so."""
