"""The table of the kernel zoo: programs that every target's lowering has to get right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.math import Math
from xdsl.dialects.scf import Scf
from xdsl.parser import Parser

from lamina.dialects.simt import SIMT
from lamina.dialects.tile import TILE, KernelOp
from lamina.testing.zoo import (
    conv3x3_stride2,
    conv_line_groups,
    conv_rows,
    depthwise_rows,
    embedding,
    lstm_steps,
    mean_pool_overhang,
    norm_quantize_matmul,
    packed_matmul,
    paged_attention,
    pool3x3_stride2,
    rope_paged_write,
    scatter_duplicates,
    softmax_long,
    split_kv_attention,
    split_kv_merge,
    top_k,
    winograd_conv3x3,
)
from lamina.testing.zoo.case import ZooCase, ZooRun

_FOLDER = Path(__file__).parent / "zoo"


def _case(
    make: Callable[[np.random.Generator, int], ZooRun],
    *,
    sizes: tuple[int, ...] = (0, 1, 3, 31),
    tolerance: float = 2e-6,
    name: str = "",
    error: str = "",
    program: str = "",
) -> ZooCase:
    program = program or make.__module__.rpartition(".")[2]
    path = _FOLDER / f"{program}.mlir"
    return ZooCase(name or program, path, make, sizes, tolerance, error)


ZOO: tuple[ZooCase, ...] = (
    _case(paged_attention.make, sizes=(0, 1, 3, 7), tolerance=1e-5),
    _case(norm_quantize_matmul.make, tolerance=1e-4),
    _case(packed_matmul.make, sizes=(0, 1, 17), tolerance=1e-5),
    _case(packed_matmul.make_split, sizes=(0, 1, 5), tolerance=1e-5, program="packed_matmul_split"),
    _case(
        packed_matmul.make_bytes,
        sizes=(0, 1, 17),
        tolerance=1e-5,
        program="packed_matmul_bytes",
    ),
    _case(conv3x3_stride2.make, tolerance=1e-5),
    _case(conv_rows.make, sizes=(3,), tolerance=1e-5),
    _case(depthwise_rows.make, sizes=(9,), tolerance=1e-5),
    _case(conv_line_groups.make, sizes=(0, 9), tolerance=1e-5),
    _case(mean_pool_overhang.make, sizes=(8,)),
    _case(rope_paged_write.make, tolerance=1e-5),
    _case(winograd_conv3x3.make, sizes=(0, 1, 3, 8), tolerance=1e-5),
    _case(pool3x3_stride2.make),
    _case(softmax_long.make, sizes=(0, 1, 3, 31, 1000)),
    _case(top_k.make, sizes=(0, 1, 3, 31, 200), tolerance=0),
    _case(lstm_steps.make, sizes=(0, 1, 3, 9), tolerance=1e-5),
    _case(scatter_duplicates.make),
    _case(split_kv_attention.make, sizes=(0, 1, 3, 7), tolerance=1e-5),
    _case(split_kv_merge.make, tolerance=1e-5),
    _case(embedding.make, tolerance=0),
    _case(
        embedding.make_outside,
        sizes=(3,),
        tolerance=0,
        name="embedding_outside",
        error="embedding.tokens",
    ),
)
"""Every program with its calls."""


def context() -> Context:
    """Return a context of the dialects that a kernel is made of."""
    ctx = Context()
    for dialect in (Builtin, Arith, Math, Scf, TILE, SIMT):
        ctx.load_dialect(dialect)
    return ctx


def read_kernel(path: Path) -> KernelOp:
    """Return the one kernel of a module of text."""
    module = Parser(context(), path.read_text(), path.name).parse_module()
    module.verify()
    return cast("KernelOp", module.body.block.first_op)
