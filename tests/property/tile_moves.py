"""What random programs do to tiles of small whole numbers, in loops and branches."""

from __future__ import annotations

from math import prod
from typing import Any

from tile_programs import (
    DEEPEST,
    MOST_ELEMENTS,
    MOST_PRODUCTS,
    Move,
    Program,
    Shape,
)
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    VectorType,
    f16,
    f32,
    i32,
)
from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects import tile
from lamina.dialects.tile import shape_of


def load(p: Program) -> None:
    memory, extents = p.random.choice([*p.read, *p.written])
    shape = [p.random.choice((n, n, p.random.randint(1, n), 1)) for n in extents]
    at = p.subscripts(extents, shape, 0.25)
    more: dict[str, Any] = {}
    if not any(shape_of(each.type) for each in at) and p.likely(0.2):
        more["step"] = [p.random.choice((0, 1, 2)) for _ in shape]
    if p.likely(0.2):
        more["limits"] = {0: p.symbol}
    p.keep(p.add(tile.LoadOp(memory, at, shape, VectorType(f32, shape), **more)))


def load_scalar(p: Program) -> None:
    memory, extents = p.random.choice([*p.read, *p.written])
    at = [p.start(n, 1) for n in extents]
    spread(p, p.add(tile.LoadOp(memory, at, [1] * len(extents), f32)))


def spread(p: Program, scalar: SSAValue) -> None:
    """Keep a scalar, and a tile of it."""
    p.scalars.append(scalar)
    p.keep(p.add(tile.SplatOp(scalar, (p.size(),))))


def store(p: Program) -> None:
    memory, extents = p.random.choice(p.written)
    value = p.find(lambda shape: len(shape) == len(extents)) if p.likely(0.7) else None
    if value is None:
        value = p.value()
        shape = [1] * len(extents)
        shape[p.random.randrange(len(extents))] = prod(shape_of(value.type))
        value = p.add(tile.ReshapeOp(value, shape))
    shape = shape_of(value.type)
    p.add(tile.StoreOp(value, memory, p.subscripts(extents, shape, 0.2), shape))


def update(p: Program) -> None:
    """Store elements where they were loaded, changed, as threads may do each for themselves."""
    memory, extents = p.random.choice(p.written)
    shape = [p.random.choice((n, n, p.random.randint(1, n), 1)) for n in extents]
    at = p.subscripts(extents, shape, 0.1)
    x = p.add(tile.LoadOp(memory, at, shape, VectorType(f32, shape)))
    p.keep(p.small(p.add(arith.AddfOp(x, p.alike(x) if p.likely(0.5) else x))))
    p.add(tile.StoreOp(p.values[-1], memory, at, shape))


def scratch(p: Program) -> None:
    if p.depth == 0:
        shape = p.shape()
        memory = p.add(tile.ScratchOp(f32, shape))
        p.add(tile.StoreOp(p.full(1, shape), memory, [p.index(0)] * len(shape), shape))
        p.written.append((memory, shape))


def broadcast(p: Program) -> None:
    x = p.find(lambda shape: len(shape) < 3)
    if x is None:
        return
    shape = list(shape_of(x.type))
    new = p.random.randrange(len(shape) + 1)
    shape.insert(new, p.size())
    dims = [d for d in range(len(shape)) if d != new]
    for d in dims:
        shape[d] = p.size() if shape[d] == 1 and p.likely(0.7) else shape[d]
    if prod(shape) <= MOST_ELEMENTS:
        p.keep(p.add(tile.BroadcastOp(x, dims, shape)))


def transpose(p: Program) -> None:
    x = p.value()
    rank = len(shape_of(x.type))
    p.keep(p.add(tile.TransposeOp(x, p.random.sample(range(rank), rank))))


def reshape(p: Program) -> None:
    x = p.value()
    left, shape = prod(shape_of(x.type)), list[int]()
    while left > 1 and len(shape) < 2:
        shape.append(p.random.choice([n for n in range(1, left + 1) if left % n == 0]))
        left //= shape[-1]
    p.keep(p.add(tile.ReshapeOp(x, [*shape, left])))


def reshape_to_a_scalar(p: Program) -> None:
    x = p.find(lambda shape: prod(shape) == 1)
    if x is not None:
        spread(p, p.add(tile.ReshapeOp(x, [])))


def cut(p: Program) -> None:
    x = p.value()
    shape = shape_of(x.type)
    sizes = [p.random.randint(1, n) if p.likely(0.6) else n for n in shape]
    starts = [p.random.randint(0, n - size) for n, size in zip(shape, sizes, strict=True)]
    p.keep(p.add(tile.SliceOp(x, starts, sizes)))


def join(p: Program) -> None:
    x = p.value()
    shape = shape_of(x.type)
    dim = p.random.randrange(len(shape))

    def fits(other: Shape) -> bool:
        return (*other[:dim], *other[dim + 1 :]) == (*shape[:dim], *shape[dim + 1 :])

    others = [p.find(lambda other: len(other) == len(shape) and fits(other)) for _ in range(2)]
    parts = [x, *(each for each in others[: p.random.randint(0, 2)] if each is not None)]
    if sum(prod(shape_of(part.type)) for part in parts) <= MOST_ELEMENTS:
        p.keep(p.add(tile.JoinOp(parts, dim)))


def reduce(p: Program) -> None:
    x = p.value()
    rank = len(shape_of(x.type))
    kind = p.random.choice(("add", "max", "min", "argmax", "argmin"))
    count = 1 if kind.startswith("arg") else p.random.randint(1, rank)
    whole = p.likely(0.4)
    x = p.add(tile.CastOp(x, i32)) if whole else x
    op = tile.ReduceOp(x, kind, sorted(p.random.sample(range(rank), count)))
    p.add(op)
    for result in map(p.floats, op.results):
        if shape_of(result.type):
            p.keep(p.small(result))
        else:
            p.scalars.append(result)
            p.keep(p.small(p.add(tile.SplatOp(result, (p.size(),)))))


def reduce_truths(p: Program) -> None:
    a = p.value()
    shape = shape_of(a.type)
    true = p.add(tile.CompareOp(p.random.choice(("lt", "ge", "eq")), a, p.alike(a)))
    dims = sorted(p.random.sample(range(len(shape)), p.random.randint(1, len(shape))))
    found = p.add(tile.ReduceOp(true, p.random.choice(("and", "or", "max", "min")), dims))
    result = p.add(tile.CastOp(found, f32))
    p.keep(result) if shape_of(result.type) else spread(p, result)


def scan(p: Program) -> None:
    x = p.value()
    kind, dim = p.random.choice(("add", "max", "min")), p.random.randrange(len(shape_of(x.type)))
    properties = {"kind": StringAttr(kind), "dim": IntegerAttr(dim, 64)}
    op = tile.ScanOp.create(operands=[x], result_types=[x.type], properties=properties)
    p.keep(p.small(p.add(op)))


def dot(p: Program) -> None:
    a = p.find(lambda shape: len(shape) == 2)
    if a is None:
        return
    i = p.random.randrange(2)
    depth = shape_of(a.type)[i]
    b = p.find(lambda shape: len(shape) == 2 and depth in shape)
    if b is None:
        return
    j = p.random.choice([d for d in range(2) if shape_of(b.type)[d] == depth])
    if shape_of(a.type)[1 - i] * shape_of(b.type)[1 - j] * depth <= MOST_PRODUCTS:
        multiply(p, a, b, i, j, p.likely(0.7))


def dot_for_units(p: Program) -> None:
    """Multiply matrices that matrix units can take, loaded, or computed before."""
    m, n, k = (p.random.choice((size, 2 * size)) for size in (16, 8, 16))
    i, j = p.random.randrange(2), p.random.randrange(2)
    a, b = matrix(p, (m, k) if i else (k, m)), matrix(p, (n, k) if j else (k, n))
    multiply(p, a, b, i, j, narrow=True)


def matrix(p: Program, shape: Shape) -> SSAValue:
    found = p.find(lambda other: other == shape)
    turned = p.find(lambda other: other == shape[::-1])
    memories = [each for each in (*p.read, *p.written) if len(each[1]) == 2]
    if found is not None and p.likely(0.7):
        return found
    if turned is not None:
        return p.add(tile.TransposeOp(turned, [1, 0]))
    if not memories:
        return p.full(1, shape)
    memory, extents = p.random.choice(memories)
    at = [p.start(n, 1) for n in extents]
    return p.add(tile.LoadOp(memory, at, shape, VectorType(f32, shape)))


def multiply(p: Program, a: SSAValue, b: SSAValue, i: int, j: int, narrow: bool) -> None:
    shape = (shape_of(a.type)[1 - i], shape_of(b.type)[1 - j])
    sums = p.find(lambda other: other == shape)
    sums = p.full(0, shape) if sums is None else sums
    if narrow:
        a, b = (p.add(tile.CastOp(x, f16)) for x in (a, b))
    p.keep(p.small(p.add(tile.DotOp(a, b, sums, [(i, j)]))))


def combine(p: Program) -> None:
    a = p.value()
    kind = p.random.choice((arith.AddfOp, arith.SubfOp, arith.MaximumfOp))
    p.keep(p.small(p.add(kind(a, p.alike(a)))))


def select(p: Program) -> None:
    a = p.value()
    b = p.alike(a)
    chosen = p.add(tile.CompareOp(p.random.choice(("lt", "ge", "eq")), a, b))
    p.keep(p.add(tile.SelectOp(chosen, b, a)))


def iota(p: Program) -> None:
    p.keep(p.small(p.floats(p.add(tile.IotaOp(i32, p.size())))))


def dense(p: Program) -> None:
    numbers = [float(p.random.randint(-4, 4)) for _ in range(p.random.choice((2, 3, 4, 8)))]
    value = DenseIntOrFPElementsAttr.from_list(VectorType(f32, [len(numbers)]), numbers)
    p.keep(p.add(arith.ConstantOp(value)))


def loop(p: Program) -> None:
    if p.depth >= DEEPEST:
        return
    carried = [p.value() for _ in range(p.random.randint(0, 2))]
    bounds = [p.index(n) for n in (0, p.random.choice((0, 1, 2, 3)), 1)]
    block = Block(arg_types=[IndexType(), *(value.type for value in carried)])
    with p.inside(block):
        p.counters.append(block.args[0])
        p.values += [*block.args[1:], *block.args[1:]]
        p.steps(p.random.randint(1, 5))
        p.add(scf.YieldOp(*(last(p, value) for value in carried)))
    op = scf.ForOp(*bounds, carried, block)
    p.add(op)
    p.values += op.results


def last(p: Program, like: SSAValue) -> SSAValue:
    """Return a value of a type, mostly the last one."""
    found = [value for value in p.values if value.type == like.type]
    return found[-1] if p.likely(0.7) else p.random.choice(found)


def branch(p: Program) -> None:
    if p.depth >= DEEPEST or not (p.scalars or p.counters):
        return
    given = [p.value() for _ in range(p.random.randint(0, 2))]
    condition = p.add(comparison(p))
    blocks = [Block(), Block()]
    for block in blocks:
        with p.inside(block):
            p.steps(p.random.randint(0, 4))
            p.add(scf.YieldOp(*(last(p, value) for value in given)))
    op = scf.IfOp(condition, [value.type for value in given], [blocks[0]], [blocks[1]])
    p.add(op)
    p.values += op.results


def comparison(p: Program) -> Operation:
    if p.counters and (not p.scalars or p.likely(0.4)):
        return arith.CmpiOp(p.counters[-1], p.index(1), "slt")
    bound = p.number(p.random.randint(-2, 2))
    return arith.CmpfOp(p.random.choice(p.scalars), bound, "olt")


def check(p: Program) -> None:
    """Check what holds: numbers are no larger than they are made."""
    x = p.value()
    bound = p.full(1 << 20, shape_of(x.type))
    p.add(
        tile.CheckOp.create(
            operands=[p.add(tile.CompareOp("lt", x, bound))],
            properties={"node": StringAttr("a number that is too large")},
        )
    )


MOVES: dict[Move, int] = {
    **dict.fromkeys((load, store), 4),
    **dict.fromkeys((broadcast, transpose, reshape, reduce, dot, dot_for_units, combine, loop), 2),
    **dict.fromkeys((cut, join, scan, select, iota, dense, load_scalar, reduce_truths, check), 1),
    **dict.fromkeys((reshape_to_a_scalar, scratch, branch, update), 1),
}
"""How often each move is made."""

PRODUCTS: dict[Move, int] = {**MOVES, store: 2, dot_for_units: 9, loop: 5}
"""The same for programs of many products."""
