"""Causal attention of a prompt, beside PyTorch and beside our own unfused form.

    python bench/attention.py --peer-python PATH [--threads 1 2] [--only 'attention D=64*' ...]

One sequence of 2,048 tokens, in f32. Ours writes its keys and values to pages and reads them back,
as a decoder does, by the module text that importers emit; `lamina unfused` is `nn.attention` spelt
in products and a softmax over all scores. PyTorch's is scaled_dot_product_attention with
enable_gqa and is_causal. The limit is the time of the multiply-adds that no mask hides.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import command
import drawn
import numpy as np
from command import Setting
from figures import Row
from step import Array, check_close, compiled
from xdsl.dialects.builtin import FloatAttr, ModuleOp, UnitAttr, f32, i32

from lamina.dialects import cache, nn
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import tensor
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weights
from lamina.runtime.batch import Batch, Part

LENGTH, PAGE = 2048, 16
TOLERANCE = 2e-5
UNFUSED = "lamina unfused"


@dataclass(frozen=True)
class Heads:
    """Query heads, the key-value heads that they share, and the size of each."""

    count: int
    shared: int
    size: int

    @property
    def name(self) -> str:
        """The name of the row."""
        return f"attention D={self.size} {self.count // self.shared}:1"


SHAPES = (Heads(9, 3, 64), Heads(8, 1, 64), Heads(9, 3, 128), Heads(8, 1, 128))


def paged(heads: Heads) -> ModuleOp:
    """Return attention over pages: q, k, v f32 [T, heads, D] of a ragged batch."""
    graph, tokens = Graph(Weights(())), Dim.symbol("T")
    kept = [tokens, heads.shared, heads.size]
    q = graph.input("q", f32, [tokens, heads.shared, heads.count // heads.shared, heads.size])
    k, v = (graph.input(name, f32, kept) for name in "kv")
    positions, start, table, _ = (
        graph.input(role, i32, dims, role)
        for role, dims in (
            ("positions", ["T"]),
            ("query_start", ["S + 1"]),
            ("table", ["S", "B"]),
            ("work", ["W", 2]),
        )
    )
    place = (positions, graph.add(cache.SequenceOp(start, tokens)), table)
    read = []
    for name, value in (("keys", k), ("values", v)):
        pages = PagesType.of(f32, "pages", heads.shared, PAGE, heads.size, 0)
        pool = graph.add(cache.WriteOp(graph.state(name, pages), value, *place))
        graph.update(name, pool)
        read.append(graph.add(cache.ReadOp(pool, *place)))
    length = PAGE * Dim.symbol("B")
    scores = graph.add(nn.DotGeneralOp(q, read[0], [(3, 3)], [(0, 0), (1, 2)]))
    scores = graph.add(nn.MulOp(scores, graph.fill(1 / math.sqrt(heads.size), scores)))
    shape = [tokens, heads.shared, heads.count // heads.shared, length]
    keys = graph.add(nn.BroadcastOp(graph.add(nn.IotaOp(0, tensor(i32, [length]))), [3], shape))
    own = graph.add(nn.BroadcastOp(positions, [0], shape))
    seen = graph.add(nn.CompareOp("le", keys, own))
    scores = graph.add(nn.SelectOp(seen, scores, graph.fill(-math.inf, scores)))
    p = graph.add(nn.SoftmaxOp(scores, 3))
    y = graph.add(nn.DotGeneralOp(p, read[1], [(3, 1)], [(0, 0), (1, 2)]))
    graph.output("y", y)
    return graph.finish()


def unfused(heads: Heads) -> ModuleOp:
    """Return `nn.attention`: q f32 [1, heads, M, D], k and v [1, shared, M, D]."""
    graph = Graph(Weights(()))
    q = graph.input("q", f32, [1, heads.count, "M", heads.size])
    k, v = (graph.input(name, f32, [1, heads.shared, "M", heads.size]) for name in "kv")
    properties = {"scale": FloatAttr(1 / math.sqrt(heads.size), f32), "causal": UnitAttr()}
    op = nn.AttentionOp(operands=[q, k, v, []], properties=properties, result_types=[q.type])
    graph.output("y", graph.add(op))
    return graph.finish()


def tensors(heads: Heads) -> dict[str, Array]:
    """Return q f32 [1, heads, length, D], k and v [1, shared, length, D]."""
    shapes = {"q": heads.count, "k": heads.shared, "v": heads.shared}
    return {
        name: drawn.activations(1, count, LENGTH, heads.size, seed=seed)
        for seed, (name, count) in enumerate(shapes.items(), 1)
    }


def ragged(heads: Heads, block: int) -> dict[str, Array]:
    """Return the same as a batch of one sequence, its work in blocks of `block` tokens."""
    pages = np.arange(LENGTH // PAGE, dtype=np.int32)
    batch = Batch(block).fill([Part(range(LENGTH), 0, pages)])
    found: dict[str, Array] = {
        name: np.ascontiguousarray(array[0].swapaxes(0, 1))
        for name, array in tensors(heads).items()
    }
    found["q"] = found["q"].reshape(LENGTH, heads.shared, -1, heads.size)
    return found | {role: batch[role] for role in ("positions", "query_start", "table", "work")}


def measure(setting: Setting) -> Iterator[Row]:
    """Yield the rows that are asked for."""
    for heads in SHAPES:
        if setting.wants(heads.name):
            yield _row(setting, heads)


def _row(setting: Setting, heads: Heads) -> Row:
    pages = LENGTH // PAGE
    fused = compiled(paged(heads), Weights(()), setting.target, setting.threads, pages=pages)
    plain = compiled(unfused(heads), Weights(()), setting.target, setting.threads)
    apart = tensors(heads)
    batch = ragged(heads, fused.executable.signature.attributes["block"])
    y = fused.run(batch)["y"].reshape(1, LENGTH, heads.count, heads.size).swapaxes(1, 2)
    check_close(f"{heads.name}, {UNFUSED}", y, plain.run(apart)["y"], TOLERANCE)
    if setting.peer is not None:
        sizes = {"heads": heads.count, "shared": heads.shared, "size": heads.size}
        theirs = setting.prepared("attention", "torch", length=LENGTH, **sizes)
        check_close(heads.name, y, theirs, TOLERANCE)
    times = setting.times(
        lambda: fused.spans(batch), ["torch"], {UNFUSED: lambda: plain.spans(apart)}
    )
    work = 2.0 * LENGTH * LENGTH * heads.size * heads.count
    peak = setting.limits.float_ops
    seconds = {side: parts[0] for side, parts in times.items()}
    least = work / peak if peak else None
    return Row(heads.name, setting.threads, seconds, work / 1e9, "GFLOP/s", least)


SCRIPT = command.Script("kernel_peer.py", measure, lambda row: "attention")

if __name__ == "__main__":
    command.main(__doc__, SCRIPT)
