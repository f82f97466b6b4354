"""A kernel of multiply-adds alone, by which a device's arithmetic is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from lamina import compiler
from lamina.dialects.text import parse_module
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.plugins import manager
from lamina.targets.timeline import trace

if TYPE_CHECKING:
    from lamina.targets.base import Target
    from lamina.targets.devices.executable import DeviceExecutable

WIDTH: Final = 2048
"""Elements of a block, each with a chain of sums: several chains for every thread."""

_UNROLLED: Final = 8
"""Multiply-adds of a chain in a round."""

_LEAST_SECONDS: Final = 0.02
_FIRST_ROUNDS: Final = 16
_MOST_ROUNDS: Final = 1 << 20


def measure_floats(target: Target, *, blocks: int = 1024, rounds: int = 5) -> float:
    """Return the f32 operations a second that `target`'s device reaches with `blocks` blocks.

    The best of `rounds` counts; 0 for a target that has no kernels of threads.
    """
    passes = [p for p in target.passes() if isinstance(p, ChooseLayoutsPass | LowerTilesPass)]
    if not passes:
        return 0.0
    module = parse_module(manager.context(), _text(), "the probe of arithmetic")
    compiled = compiler.compile(module, target, pipeline=passes)
    executable = cast("DeviceExecutable[Any, Any, Any]", compiled)
    length = _FIRST_ROUNDS
    seconds = _seconds(executable, blocks, length)
    while seconds < _LEAST_SECONDS and length < _MOST_ROUNDS:
        length *= 2
        seconds = _seconds(executable, blocks, length)
    seconds = min(seconds, *(_seconds(executable, blocks, length) for _ in range(rounds)))
    return 2 * WIDTH * _UNROLLED * length * blocks / seconds


def _seconds(executable: DeviceExecutable[Any, Any, Any], blocks: int, length: int) -> float:
    # Sums stay at 1: numbers that grow or vanish may take another time.
    x = np.full(WIDTH, 0.5, np.float32)
    with trace(executable) as timeline:
        executable(x, np.zeros(blocks, np.int8), np.zeros(length, np.int8))
    return timeline.steps[0].seconds


def _text() -> str:
    vector, end = f"vector<{WIDTH}xf32>", "in_bounds = array<i64: 0>"
    x, y = f"tensor<{WIDTH}xf32>", 'tensor<?xf32, #nn.dims<["N"]>>'
    sums = [f"%a{n + 1} = math.fma %a{n}, %v, %v : {vector}\n    " for n in range(_UNROLLED)]
    return f"""
tile.kernel @multiply_add attributes {{
  symbols = ["n", "r"], grid = ["n"], access = ["read", "write"]
}} {{
^bb0(%x: memref<{WIDTH}xf32>, %y: memref<?xf32>, %n: index, %r: index):
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %block = tile.program_id {{dim = 0 : i64}}
  %v = tile.load %x[%zero] {{shape = array<i64: {WIDTH}>, {end}}} : memref<{WIDTH}xf32>[index] \
-> {vector}
  %sums = scf.for %i = %zero to %r step %one iter_args(%a0 = %v) -> ({vector}) {{
    {"".join(sums)}scf.yield %a{_UNROLLED} : {vector}
  }}
  %sum = tile.reduce %sums {{kind = "add", dims = array<i64: 0>}} : ({vector}) -> f32
  tile.store %sum, %y[%block] {{shape = array<i64: 1>, unique}} : f32, memref<?xf32>[index]
  tile.return
}}
func.func @forward(
  %x: !plan.buffer<{x}> {{lamina.input = "x"}},
  %blocks: !plan.buffer<tensor<?xi8, #nn.dims<["N"]>>> {{lamina.input = "blocks"}},
  %rounds: !plan.buffer<tensor<?xi8, #nn.dims<["R"]>>> {{lamina.input = "rounds"}},
  %y: !plan.buffer<{y}> {{lamina.output = "y"}}
) {{
  plan.launch {{
    plan.call @multiply_add(%x, %y) {{symbols = ["N", "R"]}} : !plan.buffer<{x}>, !plan.buffer<{y}>
  }}
  plan.return
}}"""
