"""Products of activations with packed weights, beside PyTorch and OpenBLAS in the same run.

    python bench/linears.py --peer-python PATH [--threads 1 2] [--only 'f32*M=1' ...]
                            [--target 'cpu{features=avx2}']

One step is as many linears one after another as make their weights 200 MB (in blocks: 100 MB), so
that they come from memory; each takes the output of the last where the widths fit. Both sides do
the same chain on the same numbers. The peer is the better of torch.nn.functional.linear and
cblas_sgemm of scipy-openblas64. Weights in 8-bit and 4-bit blocks are measured without a peer.
The limit is the larger of the times that reading the weights and the arithmetic take. Means and
the least of groups stand beside their bars; with a feature level named, the peers are restricted
to it, and our f32 linears are held to PyTorch's.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import command
import drawn
import numpy as np
from bars import Figure
from command import Setting
from figures import OURS, Row, geometric_mean
from step import Array, check_close, compiled
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

import lamina
from lamina.dialects.block_types import BLOCK_TYPES
from lamina.dialects.tensors import extents
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weight, Weights

CHAINS = (
    ((576, 576),),
    ((1536, 576), (576, 1536)),
    ((768, 768),),
    ((3072, 768), (768, 3072)),
    ((4096, 4096),),
    ((49152, 576),),
)
"""(N, K) of linears that take turns in a step."""

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 512, 1024)
FEW, SOME, MANY = 16, 32, 64
MEGABYTES = {"f32": 200, "q8_0": 100, "q4_1": 100, "q4_0": 100}
PEERS = ("torch", "openblas")
DEVIATIONS = {"q8_0": 73.9, "q4_1": 4.61, "q4_0": 4.61}
"""The deviation of random quants in units of their scale."""
MIDDLE = -7.5
EXACT, EIGHT_BITS = 1e-4, 0.05
"""How far results may be off, in f32 and with activations of 8 bits."""
BUDGET = 20.0
"""Seconds for the rounds of a row: a machine that has two CPUs to itself takes five in them."""
MEANS = {f"M <= {FEW}": 1.8, f"M >= {SOME}": 1.0}
LEAST = {f"M <= {FEW}": 1.0, f"M >= {SOME}": 0.85}
"""What the ratios of f32 linears to the better peer have to be."""
RESTRICTED = 0.8
"""What their ratios to PyTorch have to be with both restricted to a level."""
SHARES = {"M = 1": 0.85, f"M >= {MANY}": 0.35}
"""What linears of blocks have to reach of the limit: of reading, and of the arithmetic."""


@dataclass(frozen=True)
class Chain:
    """Linears of some shapes, in turn, as often as the weights are to be large."""

    kind: str
    shapes: tuple[tuple[int, int], ...]

    @property
    def linears(self) -> list[list[int]]:
        """[N, K] of each linear of a step."""
        once = sum(rows * columns for rows, columns in self.shapes) * self.weight_bytes
        return [list(shape) for shape in self.shapes] * math.ceil(MEGABYTES[self.kind] * 1e6 / once)

    @property
    def weight_bytes(self) -> float:
        """The bytes of a weight in the file."""
        if self.kind == "f32":
            return 4.0
        return BLOCK_TYPES[self.kind].bytes / BLOCK_TYPES[self.kind].elements

    def name(self, shape: Sequence[int], rows: int) -> str:
        """Return the name of the row of a shape."""
        return f"{self.kind} {shape[0]}x{shape[1]} M={rows}"

    @cached_property
    def weights(self) -> Weights:
        """Random weights, so large that activations neither grow nor fade."""
        if self.kind == "f32":
            arrays = drawn.weights(self.linears)
            return Weights([Weight.of(f"w{n}", array) for n, array in enumerate(arrays)])
        return Weights(
            [
                Weight(f"w{n}", self.kind, (rows, columns), blocks(self.kind, rows, columns, n))
                for n, (rows, columns) in enumerate(self.linears)
            ]
        )

    def module(self, count: int) -> ModuleOp:
        """Return the chain of the first `count` linears; the output `y` is the last one's."""
        graph = Graph(self.weights)
        x = y = graph.input("x", f32, ["M", self.shapes[0][1]])
        unused: list[SSAValue] = []
        for number, (rows, columns) in enumerate(self.linears[:count]):
            if extents(y.type)[1].evaluate({}) != columns:
                unused.append(y)
                y = x
            y = graph.linear(y, graph.parameter(f"w{number}", (rows, columns)))
        graph.output("y", y)
        for number, value in enumerate(unused):
            graph.output(f"unused{number}", value)
        return graph.finish(lambda name: True)


def blocks(kind: str, rows: int, columns: int, seed: int) -> Array:
    """Return a random weight of about `columns ** -0.5` in blocks: uint8 [N, bytes of a row]."""
    rng, block = np.random.default_rng(seed), BLOCK_TYPES[kind]
    found = rng.integers(0, 256, (rows, columns // block.elements, block.bytes), np.uint8)
    scale = columns**-0.5 / DEVIATIONS[kind]
    found[..., :2] = np.array([scale], np.float16).view(np.uint8)
    if kind == "q4_1":
        found[..., 2:4] = np.array([MIDDLE * scale], np.float16).view(np.uint8)
    return found.reshape(rows, -1)


def measure(setting: Setting) -> Iterator[Row]:
    """Yield the rows that are asked for."""
    for kind in MEGABYTES:
        for shapes in CHAINS:
            chain = Chain(kind, shapes)
            wanted = [m for m in ROWS if any(setting.wants(chain.name(s, m)) for s in shapes)]
            if wanted:
                yield from _rows(setting, chain, wanted)


def _rows(setting: Setting, chain: Chain, wanted: Sequence[int]) -> Iterator[Row]:
    count, period = len(chain.linears), len(chain.shapes)
    peers = PEERS if chain.kind == "f32" and setting.peer else ()
    if chain.kind != "f32":
        _check_blocks(setting, chain)
    steps = compiled(chain.module(count), chain.weights, setting.target, setting.threads)
    for rows in wanted:
        x = drawn.activations(rows, chain.shapes[0][1])
        for name in peers:
            theirs = setting.prepared(name, name, shapes=chain.linears, rows=rows)
            ours = steps.run({"x": x})["y"]
            check_close(f"{name}, {chain.shapes}, M = {rows}", ours, theirs, EXACT)
        times = setting.times(lambda x=x: steps.spans({"x": x}, count), peers)
        for number, shape in enumerate(chain.shapes):
            if setting.wants(chain.name(shape, rows)):
                seconds = {side: float(np.mean(t[number::period])) for side, t in times.items()}
                yield _row(setting, chain, shape, rows, seconds)


def _row(
    setting: Setting,
    chain: Chain,
    shape: tuple[int, int],
    rows: int,
    seconds: dict[str, float],
) -> Row:
    limits, elements = setting.limits, shape[0] * shape[1]
    work = 2.0 * rows * elements
    peak = limits.float_ops if chain.kind == "f32" else limits.integer_ops
    least = max(elements * chain.weight_bytes / limits.read, work / peak if peak else 0.0)
    unit = "GFLOP/s" if chain.kind == "f32" else "GOP/s"
    return Row(chain.name(shape, rows), setting.threads, seconds, work / 1e9, unit, least)


def _check_blocks(setting: Setting, chain: Chain) -> None:
    """Compare a linear of each shape with what the operations mean, activations in f32."""
    module, x = chain.module(len(chain.shapes)), drawn.activations(2, chain.shapes[0][1])
    steps = compiled(module, chain.weights, setting.target, setting.threads)
    exact = lamina.compile(module, "reference", weights=chain.weights)(x)["y"]
    check_close(f"{chain.kind}, {chain.shapes}", steps.run({"x": x})["y"], exact, EIGHT_BITS)


def group(row: Row) -> str:
    """Return what a row is summed up with."""
    kind, rows = row.name.split()[0], int(row.name.partition("M=")[2])
    if kind == "f32":
        return f"f32 M {f'<= {FEW}' if rows <= FEW else f'>= {SOME}'}"
    return f"{kind} M {'= 1' if rows == 1 else f'>= {MANY}' if rows >= MANY else f'< {MANY}'}"


def held(rows: Sequence[Row], level: str | None) -> Iterator[Figure]:
    """Yield the mean and the least of the groups that have bars."""
    groups: dict[tuple[int, str, str], list[Row]] = {}
    for row in rows:
        kind, _, size = group(row).partition(" ")
        groups.setdefault((row.threads, kind, size), []).append(row)
    for (threads, kind, size), own in groups.items():
        name = f"{kind} {size}"
        if kind == "f32":
            yield from _ratios(name, threads, size, own, level)
        elif size in SHARES:
            shares = [row.of_limit for row in own if row.of_limit is not None]
            # A level below the machine's has no such bar of its arithmetic.
            bar = SHARES[size] if level is None or size == "M = 1" else None
            yield Figure(f"{name}, least", threads, min(shares), bar, {}, share=True)


def _ratios(
    name: str, threads: int, size: str, rows: Sequence[Row], level: str | None
) -> Iterator[Figure]:
    best = [row.ratio for row in rows if row.ratio is not None]
    if not best:
        return
    bars: Mapping[str, float | None] = MEANS if level is None else {}
    least: Mapping[str, float | None] = LEAST if level is None else {}
    yield Figure(f"{name}, mean", threads, geometric_mean(best), bars.get(size), {})
    yield Figure(f"{name}, least", threads, min(best), least.get(size), {})
    if level is not None:
        torch = [row.seconds[PEERS[0]] / row.seconds[OURS] for row in rows]
        yield Figure(f"{name}, mean to {PEERS[0]}", threads, geometric_mean(torch), RESTRICTED, {})
        yield Figure(f"{name}, least to {PEERS[0]}", threads, min(torch), RESTRICTED, {})


SCRIPT = command.Script("kernel_peer.py", measure, group, held, BUDGET)

if __name__ == "__main__":
    command.main(__doc__, SCRIPT)
