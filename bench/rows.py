"""Softmax, norms, activations and rope on rows, beside PyTorch in the same run.

    python bench/rows.py --peer-python PATH [--threads 1 2] [--only 'softmax*' ...]

In memory (4096 x 4096, f32) and in the caches (512 x 576). The limit is what copying reaches:
as many bytes are read and written. PyTorch has no rope of its own: it does what models written
for it do, x cos + rotate_half(x) sin.
"""

from collections.abc import Callable, Iterator

import command
import drawn
from cached_copy import cached_copy
from command import Setting
from figures import Row
from step import Array, check_close, compiled
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Operation, SSAValue

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weight, Weights

EPS = 1e-5
TOLERANCE = 1e-5
SIZES = ((4096, 4096, 128), (512, 576, 64))
"""Rows, width, and the width of a head in rope."""
IN_CACHE = 4 << 20
"""Bytes that both ends of an operation may take to count as cached."""


def _weight(graph: Graph, name: str) -> SSAValue:
    return graph.parameter(name, graph.weights[name].shape)


OPS: dict[str, Callable[[Graph, SSAValue], Operation]] = {
    "softmax": lambda graph, x: nn.SoftmaxOp(x, 1),
    "layer_norm": lambda graph, x: nn.LayerNormOp(
        x, _weight(graph, "scale"), _weight(graph, "shift"), EPS
    ),
    "rms_norm": lambda graph, x: nn.RmsNormOp(x, _weight(graph, "scale"), EPS),
    "gelu": lambda graph, x: nn.GeluOp(x),
    "gelu_tanh": lambda graph, x: nn.GeluOp(x, approximate=True),
    "silu": lambda graph, x: nn.SiluOp(x),
    "rope": lambda graph, x: nn.RopeOp(
        x, *(graph.input(f, f32, ["M", extents(x.type)[2] // 2]) for f in ("cos", "sin")),
        interleaved=False,
    ),
}  # fmt: skip


def module(op: str, weights: Weights, width: int, head: int) -> ModuleOp:
    """Return the operation on x f32 [M, width], or [M, width / head, head] for rope."""
    graph = Graph(weights)
    shape = [width // head, head] if op == "rope" else [width]
    x = graph.input("x", f32, ["M", *shape])
    graph.output("y", graph.add(OPS[op](graph, x)))
    return graph.finish(lambda name: True)


def inputs(op: str, rows: int, width: int, head: int) -> dict[str, Array]:
    """Return what a call takes."""
    x = drawn.activations(rows, width)
    if op != "rope":
        return {"x": x}
    cos, sin = drawn.rotations(rows, head // 2)
    return {"x": x.reshape(rows, width // head, head), "cos": cos, "sin": sin}


def measure(setting: Setting) -> Iterator[Row]:
    """Yield the rows that are asked for."""
    for rows, width, head in SIZES:
        names = {op: f"{op} {rows}x{width}" for op in OPS}
        wanted = [op for op, name in names.items() if setting.wants(name)]
        if not wanted:
            continue
        size = 4 * rows * width
        copy = setting.limits.copy
        if 2 * size <= IN_CACHE:
            copy = cached_copy(size, setting.threads, setting.rounds)
            print(f"copying {size / 1e6:.1f} MB in the caches: {copy / 1e9:.1f} GB/s")
        for op in wanted:
            seconds = _seconds(setting, op, rows, width, head)
            yield Row(names[op], setting.threads, seconds, 2 * size / 1e9, "GB/s", 2 * size / copy)


def _seconds(setting: Setting, op: str, rows: int, width: int, head: int) -> dict[str, float]:
    scale, shift = drawn.vectors(width)
    weights = Weights([Weight.of("scale", scale), Weight.of("shift", shift)])
    steps = compiled(module(op, weights, width, head), weights, setting.target, setting.threads)
    given = inputs(op, rows, width, head)
    if setting.peer is not None:
        theirs = setting.prepared("rows", "torch", op=op, rows=rows, width=width, head=head)
        check_close(op, steps.run(given)["y"].reshape(rows, width), theirs, TOLERANCE)
    times = setting.times(lambda: steps.spans(given), ["torch"])
    return {side: parts[0] for side, parts in times.items()}


SCRIPT = command.Script("kernel_peer.py", measure, lambda row: row.name.split()[-1])

if __name__ == "__main__":
    command.main(__doc__, SCRIPT)
