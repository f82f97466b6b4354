"""Seeded inputs of ONNX graphs, at several shapes where extents are free.

A table in JSON may say more of some files: by a pattern of paths, by an input's name, what is drawn
for each call. `shape` are extents (0: as usual), `high` the integers' end, `scale` the standard
deviation of floats, `value` the array itself, `extent` the extent of another input, as
[name, axis], in each element; a list of such objects is for the calls in turn.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]
Said = Mapping[str, Any]

CALLS = 2
BATCHES, LENGTHS = (1, 3), (64, 96)


def graph_of(path: Path) -> onnx.GraphProto:
    """Return the graph of a file, without weights that lie elsewhere."""
    return onnx.load(path, load_external_data=False).graph


def said_of(path: Path, table: Path | None) -> Said:
    """Return what the table says of the inputs of a file."""
    if table is None:
        return {}
    for pattern, said in json.loads(table.read_text(encoding="utf-8")).items():
        if fnmatchcase(path.as_posix(), pattern):
            return said
    return {}


def calls(graph: onnx.GraphProto, said: Said) -> Iterator[dict[str, Array]]:
    """Yield the inputs of each call; a graph without free extents is called at one shape."""
    weights = {each.name for each in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    shapes = [_shapes(inputs, said, turn) for turn in range(CALLS)]
    for turn, drawn in enumerate(shapes[: 1 if shapes[0] == shapes[1] else CALLS]):
        rng = np.random.default_rng(turn)
        yield {
            value.name: _drawn(value, drawn, _at(said.get(value.name, {}), turn), rng)
            for value in inputs
        }


def _at(said: Any, turn: int) -> Said:
    return said[turn] if isinstance(said, list) else said


def _shapes(
    inputs: Sequence[onnx.ValueInfoProto], said: Said, turn: int
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a call; extents of one name are equal, first ones those of a batch."""
    named: dict[str, int] = {}
    found: dict[str, tuple[int, ...]] = {}
    for value in sorted(inputs, key=lambda value: "shape" not in _at(said.get(value.name, {}), 0)):
        dims = value.type.tensor_type.shape.dim
        shape = _at(said.get(value.name, {}), turn).get("shape", [0] * len(dims))
        own = [
            n
            or (dim.dim_value if dim.dim_value > 0 else named.get(dim.dim_param))
            or (LENGTHS if axis else BATCHES)[turn]
            for axis, (n, dim) in enumerate(zip(shape, dims, strict=True))
        ]
        named |= {dim.dim_param: n for n, dim in zip(own, dims, strict=True) if dim.dim_param}
        found[value.name] = tuple(own)
    return found


def _drawn(
    value: onnx.ValueInfoProto,
    shapes: Mapping[str, tuple[int, ...]],
    said: Said,
    rng: np.random.Generator,
) -> Array:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    shape = shapes[value.name]
    if "value" in said:
        return np.broadcast_to(np.asarray(said["value"], dtype), shape).copy()
    if "extent" in said:
        name, axis = said["extent"]
        return np.full(shape, shapes[name][axis], dtype)
    if dtype.kind in "iub":
        return rng.integers(0, said.get("high", 2), shape).astype(dtype)
    return (rng.standard_normal(shape) * said.get("scale", 1.0)).astype(dtype)
