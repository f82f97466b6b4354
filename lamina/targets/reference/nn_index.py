"""What the operations of `nn` do that take or put elements at places that tensors say."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import nn
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.interpreter import Interpreter, Meaning
from lamina.targets.reference.nn_shapes import check_indices

Args = tuple[Any, ...]
Places = tuple[Array, ...]
"""For each dimension of a tensor the place of each element that is meant."""

_ACCUMULATE: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _listed(op: Operation, indices: Array, sizes: tuple[int, ...]) -> Places:
    """Return the places of lists that are the last dimension of `indices`."""
    places = tuple(indices[..., d] for d in range(indices.shape[-1]))
    for each, size in zip(places, sizes, strict=False):
        check_indices(op, each, size)
    return places


def _along(op: Operation, indices: Array, axis: int, size: int) -> Places:
    """Return the places of `indices` in `axis`, and those that they are at themselves."""
    check_indices(op, indices, size)
    places = _own_places(indices.shape)
    return (*places[:axis], indices, *places[axis + 1 :])


def _own_places(shape: tuple[int, ...]) -> Places:
    """Return for each dimension where the elements of a tensor are, to be broadcast."""
    aligned = [[-1 if d == dim else 1 for d in range(len(shape))] for dim in range(len(shape))]
    return tuple(np.arange(n).reshape(like) for n, like in zip(shape, aligned, strict=True))


def _gather_nd(run: Interpreter, op: nn.GatherNdOp, args: Args) -> tuple[Any]:
    x, indices = args
    batch = op.batch_dims.value.data
    places = _listed(op, indices, x.shape[batch:])
    batches = _own_places(indices.shape[:-1])[:batch]
    return (x[(*batches, *places)].reshape(run.shape(op.y.type)),)


def _gather_elements(run: Interpreter, op: nn.GatherElementsOp, args: Args) -> tuple[Any]:
    x, indices = args
    axis = op.axis.value.data
    return (x[_along(op, indices, axis, x.shape[axis])],)


def _scatter_nd(run: Interpreter, op: nn.ScatterNdOp, args: Args) -> tuple[Any]:
    x, indices, updates = args
    return (_scattered(x, _listed(op, indices, x.shape), updates, op.kind.data),)


def _scatter_elements(run: Interpreter, op: nn.ScatterElementsOp, args: Args) -> tuple[Any]:
    x, indices, updates = args
    axis = op.axis.value.data
    return (_scattered(x, _along(op, indices, axis, x.shape[axis]), updates, op.kind.data),)


def _scattered(x: Array, places: Places, updates: Array, kind: str) -> Array:
    y = x.copy()
    if kind == "set":
        y[places] = updates
    else:
        _ACCUMULATE[kind].at(y, places, updates)
    return y


MEANINGS: dict[type[Operation], Meaning] = {
    nn.GatherElementsOp: _gather_elements,
    nn.GatherNdOp: _gather_nd,
    nn.ScatterElementsOp: _scatter_elements,
    nn.ScatterNdOp: _scatter_nd,
}
