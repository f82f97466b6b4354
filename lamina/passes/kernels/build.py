"""From a scheduled group to its kernel: which builder takes which anchor."""

from __future__ import annotations

from collections.abc import Callable

from lamina.dialects import nn, tile
from lamina.errors import LoweringError
from lamina.passes.kernels import joins, maps, pages, weights  # noqa: F401  (their tile rules)
from lamina.passes.kernels.attention_kernel import build_attention
from lamina.passes.kernels.dot_kernel import build_dot
from lamina.passes.kernels.linear_kernel import build_linear
from lamina.passes.kernels.reduce_kernel import build_reduce
from lamina.passes.kernels.row_kernel import build_rows

BUILDERS: dict[str, Callable[[nn.GroupOp, str], tile.KernelOp]] = {
    "attention": build_attention,
    "dot": build_dot,
    "linear": build_linear,
    "reduce": build_reduce,
    "rows": build_rows,
}
"""The builder of each anchor."""


def build_kernel(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Return the kernel of a scheduled group, or raise LoweringError saying what has no rule."""
    anchor = group.anchor.data
    if anchor not in BUILDERS:
        raise LoweringError(f"no kernel builder for {anchor!r}")
    return BUILDERS[anchor](group, name)
