"""`scf.for`, `scf.if`, `scf.while` and what surrounds a kernel's body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects import tile
from lamina.dialects.tile import shape_of
from lamina.targets.cpu.elements import INDEX, element
from lamina.targets.cpu.emitter import Emitter, Rule
from lamina.targets.cpu.ranges import NATURAL, Range, counted
from lamina.targets.cpu.values import Tile

Names = list[list[str]]
"""The parts of several values."""


@dataclass(frozen=True)
class Phi:
    """The values carried in a register from one block to another."""

    values: tuple[SSAValue, ...]
    names: Names

    def lines(self, emitter: Emitter, sources: Sequence[tuple[str, Names]]) -> list[str]:
        """Return the phi instructions, with the parts that come from each labelled block."""
        lines: list[str] = []
        for i, value in enumerate(self.values):
            kind = element(value.type).of(emitter.width(value))
            for j, name in enumerate(self.names[i]):
                ways = ", ".join(f"[ {parts[i][j]}, %{label} ]" for label, parts in sources)
                lines.append(f"  {name} = phi {kind} {ways}")
        return lines


def _phi(emitter: Emitter, values: Sequence[SSAValue]) -> Phi:
    builder = emitter.builder
    names: Names = []
    for value in values:
        size, width = 1, emitter.width(value)
        for extent in shape_of(value.type):
            size *= extent
        names.append(["%" + builder.fresh() for _ in range(size // (width or 1))])
    return Phi(tuple(values), names)


def _define(emitter: Emitter, phi: Phi, values: Sequence[SSAValue]) -> None:
    """Make `values` the registers of `phi`, defined in the current scope."""
    for value, names in zip(values, phi.names, strict=True):
        for name in names:
            emitter.builder.adopt(name, emitter.builder.level)
        emitter.set(value, _fixed(emitter, value, names))


def _fixed(emitter: Emitter, value: SSAValue, names: list[str]) -> Tile:
    return emitter.make(
        element(value.type), shape_of(value.type), lambda i: names[i], emitter.width(value)
    )


def _parts(emitter: Emitter, values: Sequence[SSAValue]) -> Names:
    return [emitter.usual(value).force() for value in values]


def _for(emitter: Emitter, op: scf.ForOp) -> None:
    builder = emitter.builder
    lower, upper, step = (emitter.scalar(v) for v in (op.lb, op.ub, op.step))
    reach = [_range(emitter, v) for v in (op.lb, op.ub, op.step)]
    before = _parts(emitter, op.iter_args)
    counter, loop, after = "%" + builder.fresh(), builder.fresh(), builder.fresh()
    carried = _phi(emitter, op.body.block.args[1:])
    body = op.body.block
    builder.open(loop, counter=counter)
    emitter.enter_loop(op)
    emitter.set(body.args[0], emitter.make(element(op.lb.type), (), lambda _: counter))
    emitter.bound(body.args[0], counted(*reach))
    _define(emitter, carried, body.args[1:])
    emitter.lower(body)
    following = _parts(emitter, _terminator(body).operands)
    latch = "%" + builder.fresh()
    scope = builder.close()
    emitter.leave()
    start = builder.scope.label
    surely = reach[0].below(reach[1])
    # What every way goes through needs no phi behind it.
    done = Phi(tuple(op.results), following) if surely else _phi(emitter, op.results)
    kind = element(op.lb.type).llvm
    first = _entered(emitter, surely, kind, (lower, upper), (loop, after))
    lines = [
        f"{loop}:",
        f"  {counter} = phi {kind} [ {lower}, %{start} ], [ {latch}, %{scope.label} ]",
    ]
    lines += carried.lines(emitter, [(start, before), (scope.label, following)])
    lines += scope.lines
    test = "%" + builder.fresh()
    lines += [
        f"  {latch} = add {kind} {counter}, {step}",
        f"  {test} = icmp slt {kind} {latch}, {upper}",
        f"  br i1 {test}, label %{loop}, label %{after}",
    ]
    builder.scope.lines += [*first, *lines]
    builder.block(after)
    if not surely:
        builder.scope.lines += done.lines(emitter, [(start, before), (scope.label, following)])
    _define(emitter, done, op.results)


def _entered(
    emitter: Emitter, surely: bool, kind: str, ends: tuple[str, str], targets: tuple[str, str]
) -> list[str]:
    if surely:
        return [f"  br label %{targets[0]}"]
    test = emitter.builder.pure(f"icmp slt {kind} {ends[0]}, {ends[1]}", *ends)
    return [f"  br i1 {test}, label %{targets[0]}, label %{targets[1]}"]


def _range(emitter: Emitter, value: SSAValue) -> Range:
    literal = emitter.literal(value)
    return emitter.range(value) if literal is None else Range.exactly(literal)


def _if(emitter: Emitter, op: scf.IfOp) -> None:
    builder = emitter.builder
    condition = emitter.scalar(op.cond)
    after = builder.fresh()
    results = _phi(emitter, op.output)
    targets: list[str] = []
    text: list[str] = []
    ways: list[tuple[str, Names]] = []
    branches = [region for region in (op.true_region, op.false_region) if region.blocks]
    for region in branches:
        label = builder.fresh()
        targets.append(label)
        builder.open(label, guarded=True)
        emitter.enter_loop(op)
        emitter.lower(region.block)
        values = _parts(emitter, _yielded(region.block))
        scope = builder.close()
        emitter.leave()
        ways.append((scope.label, values))
        text += [f"{label}:", *scope.lines, f"  br label %{after}"]
    targets += [after] * (2 - len(targets))
    builder.effect(f"br i1 {condition}, label %{targets[0]}, label %{targets[1]}")
    builder.scope.lines += text
    builder.block(after)
    builder.scope.lines += results.lines(emitter, ways)
    _define(emitter, results, op.output)


def _while(emitter: Emitter, op: scf.WhileOp) -> None:
    builder = emitter.builder
    before, after = op.before_region.block, op.after_region.block
    initial = _parts(emitter, op.arguments)
    head, body, end = builder.fresh(), builder.fresh(), builder.fresh()
    carried = _phi(emitter, before.args)
    builder.open(head, guarded=True)
    emitter.enter_loop(op)
    _define(emitter, carried, before.args)
    emitter.lower(before)
    condition = cast("scf.ConditionOp", _terminator(before))
    passed = _parts(emitter, condition.args)
    test = emitter.scalar(condition.condition)
    builder.effect(f"br i1 {test}, label %{body}, label %{end}")
    builder.block(body)
    for value, names in zip(after.args, passed, strict=True):
        emitter.set(value, _fixed(emitter, value, names))
    emitter.lower(after)
    following = _parts(emitter, _terminator(after).operands)
    scope = builder.close()
    emitter.leave()
    start = builder.scope.label
    phis = carried.lines(emitter, [(start, initial), (scope.label, following)])
    builder.effect(f"br label %{head}")
    builder.scope.lines += [f"{head}:", *phis, *scope.lines, f"  br label %{head}"]
    builder.block(end)
    for result, names in zip(op.res, passed, strict=True):
        for name in names:
            builder.adopt(name, min(builder.depth(name), builder.level))
        emitter.set(result, _fixed(emitter, result, names))


def _terminator(block: Block) -> Operation:
    last = block.last_op
    assert last is not None
    return last


def _yielded(block: Block) -> Sequence[SSAValue]:
    last = block.last_op
    return last.operands if isinstance(last, scf.YieldOp) else ()


def _nothing(emitter: Emitter, op: Operation) -> None:
    """Terminators are read by the operation around them."""


def _program_id(emitter: Emitter, op: tile.ProgramIdOp) -> None:
    dim = cast("IntegerAttr[Any]", op.dim).value.data
    name = emitter.worker("i64", 8 * dim)
    emitter.ranges[op.i] = _grid(emitter, dim)
    emitter.set(op.i, emitter.make(INDEX, (), lambda _: name))


def _grid(emitter: Emitter, dim: int) -> Range:
    from lamina.dialects.dims import parse_dim

    extents = emitter.kernel.grid.data
    count = parse_dim(extents[dim].data).constant if dim < len(extents) else 1
    return NATURAL if count is None else Range(0, max(count - 1, 0))


RULES: Final[dict[type[Operation], Rule]] = {
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    scf.YieldOp: _nothing,
    scf.ConditionOp: _nothing,
    tile.ReturnOp: _nothing,
    tile.ProgramIdOp: _program_id,
}
