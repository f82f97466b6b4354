"""Joins and slices: registers of a thread where it has them, shared memory where not."""

from __future__ import annotations

from math import prod

import numpy as np

from lamina.dialects import tile
from lamina.dialects.layouts import Layout, row_strides
from lamina.dialects.tile import shape_of, values
from lamina.passes.choose_layouts import join_sources, slice_source
from lamina.passes.threads.lowering import Lowering, registers_of
from lamina.passes.threads.places import View


def cut(low: Lowering, op: tile.SliceOp) -> None:
    """Lower a slice."""
    x, y, layout = shape_of(op.x.type), shape_of(op.y.type), low.layout(op.y)
    strides = row_strides(x)
    start = sum(n * stride for n, stride in zip(values(op.start), strides, strict=True))
    view = View(y, strides, start)
    low.set(op.y, layout, low.view(op.x, layout, view, slice_source(op, layout)))


def join(low: Lowering, op: tile.JoinOp) -> None:
    """Lower a join."""
    y, dim, layout = shape_of(op.y.type), op.dim.value.data, low.layout(op.y)
    strides = row_strides(y)
    views: list[View] = []
    starts = 0
    for x in op.xs:
        views.append(View(shape_of(x.type), strides, starts))
        starts += shape_of(x.type)[dim] * strides[dim]
    sources = [source for source in join_sources(op, layout) if source is not None]
    if len(sources) == len(op.xs):
        held = [
            view.table(source, low.threads) for view, source in zip(views, sources, strict=True)
        ]
        at = registers_of(np.concatenate(held, axis=1), layout.table(low.threads))
        if at is not None:
            parts = [low.get(x, source) for x, source in zip(op.xs, sources, strict=True)]
            low.set(op.y, layout, low.writer.pick(low.writer.join(parts), at))
            return
    homes: list[Layout] = [low.layout(x) for x in op.xs]
    given = [
        (low.get(x, home), home, view) for x, home, view in zip(op.xs, homes, views, strict=True)
    ]
    low.set(op.y, layout, low.shared.exchange(given, prod(y), layout, View.rows(y)))


RULES = {tile.SliceOp: cut, tile.JoinOp: join}
