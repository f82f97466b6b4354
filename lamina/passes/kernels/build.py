"""From a scheduled group to its kernel: which builder takes which anchor."""

from __future__ import annotations

from collections.abc import Callable

from lamina.dialects import nn, tile
from lamina.errors import LoweringError
from lamina.passes.kernels import joins, lookups, maps, numbers, pages, weights
from lamina.passes.kernels.attention_kernel import build_attention, build_partial_attention
from lamina.passes.kernels.contraction_kernel import build_contraction
from lamina.passes.kernels.conv_kernel import build_conv
from lamina.passes.kernels.dot_kernel import build_dot
from lamina.passes.kernels.linear_kernel import build_linear
from lamina.passes.kernels.merge_kernel import build_merge
from lamina.passes.kernels.pool_kernel import build_pool
from lamina.passes.kernels.recurrent_kernel import build_recurrent
from lamina.passes.kernels.reduce_kernel import build_reduce
from lamina.passes.kernels.row_kernel import build_rows
from lamina.passes.kernels.scan_kernel import build_scan
from lamina.passes.kernels.scatter_kernel import build_scatter
from lamina.passes.kernels.softmax_kernel import build_softmax
from lamina.passes.kernels.sort_kernel import build_sort
from lamina.passes.kernels.tiles import RULES
from lamina.passes.kernels.winograd_kernel import build_winograd

WITH_RULES = (joins, lookups, maps, numbers, pages, weights)
"""Modules whose tile rules are known once they are imported."""

TILE_RULES = RULES
"""All tile rules of the box."""

BUILDERS: dict[str, Callable[[nn.GroupOp, str], tile.KernelOp]] = {
    "attention": build_attention,
    "contraction": build_contraction,
    "conv": build_conv,
    "dot": build_dot,
    "linear": build_linear,
    "merge": build_merge,
    "partial_attention": build_partial_attention,
    "pool": build_pool,
    "recurrent": build_recurrent,
    "reduce": build_reduce,
    "rows": build_rows,
    "scan": build_scan,
    "scatter": build_scatter,
    "softmax": build_softmax,
    "sort": build_sort,
    "winograd": build_winograd,
}
"""The builder of each anchor."""


def build_kernel(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Return the kernel of a scheduled group, or raise LoweringError saying what has no rule."""
    anchor = group.anchor.data
    if anchor == "foreign":
        raise LoweringError("what it does depends on values that it is given")
    if anchor not in BUILDERS:
        raise LoweringError(f"no kernel builder for {anchor!r}")
    return BUILDERS[anchor](group, name)
