"""Outline operations as groups, and merge calls of groups: what every fusing pass does.

A group is kept once however many calls there are of it. Merging two calls makes (or finds) the
group that does the work of both; the passes only say which pairs may be merged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from lamina.dialects import nn
from lamina.dialects.tile import ScheduleAttr
from lamina.passes.functions import blocks_in
from lamina.passes.kernels.anchors import group_anchor
from lamina.passes.rewriting import SOURCE, inherit_source

Key = tuple[object, ...]

LONGEST_NAME = 48


CHECKED = (
    nn.EmbeddingOp,
    nn.GatherElementsOp,
    nn.GatherNdOp,
    nn.GatherOp,
    nn.ScatterElementsOp,
    nn.ScatterNdOp,
)
"""What refuses an index at run time by the name of its node, so that it keeps that name."""


@dataclass
class Groups:
    """The groups of a module, by name and by what they were made of."""

    module: ModuleOp
    by_name: dict[str, nn.GroupOp] = field(default_factory=dict[str, nn.GroupOp])
    _made: dict[Key, str] = field(default_factory=dict[Key, str])

    @staticmethod
    def of(module: ModuleOp) -> Groups:
        """Return the groups that a module has."""
        found = {op.sym_name.data: op for op in module.ops if isinstance(op, nn.GroupOp)}
        return Groups(module, found)

    def called(self, call: nn.CallOp) -> nn.GroupOp:
        """Return the group that a call names."""
        return self.by_name[call.callee.root_reference.data]

    def add(
        self, key: Key, stem: str, build: Callable[[], Region], host: StringAttr | None = None
    ) -> str:
        """Return the name of the group made of `key`, built if there is none yet."""
        if key not in self._made:
            name, n = stem, 2
            while name in self.by_name:
                name, n = f"{stem}_{n}", n + 1
            body = build()
            group = nn.GroupOp(name, group_anchor(list(body.block.ops)), body)
            group.host = host
            self.insert(group)
            self._made[key] = name
        return self._made[key]

    def insert(self, group: nn.GroupOp) -> None:
        """Put a group into the module, before the functions' end."""
        self.by_name[group.sym_name.data] = group
        block = self.module.body.block
        assert block.first_op is not None
        block.insert_op_before(group, block.first_op)

    def scheduled(self, name: str, schedule: ScheduleAttr) -> str:
        """Return the group `name` with this schedule: itself, or a copy."""
        group = self.by_name[name]
        if group.schedule is None or group.schedule == schedule:
            group.schedule = schedule
            return name
        return self.copy(name, (name, schedule), lambda new: _set_schedule(new, schedule))

    def copy(self, name: str, key: Key, change: Callable[[nn.GroupOp], None]) -> str:
        """Return the name of a changed copy of a group, made once for each key."""
        if key not in self._made:
            stem, n = name, 2
            while f"{stem}_{n}" in self.by_name:
                n += 1
            old = self.by_name[name]
            new = nn.GroupOp(f"{stem}_{n}", old.anchor.data, old.body.clone(), old.schedule)
            new.host = old.host
            change(new)
            self.insert(new)
            self._made[key] = new.sym_name.data
        return self._made[key]

    def drop_unused(self) -> None:
        """Erase the groups that no call names."""
        used = {
            op.callee.root_reference.data
            for function in self.module.ops
            if not isinstance(function, nn.GroupOp)
            for op in function.walk()
            if isinstance(op, nn.CallOp)
        }
        for name in [name for name in self.by_name if name not in used]:
            group = self.by_name.pop(name)
            group.detach()
            group.erase()

    def outline(self, op: Operation) -> nn.CallOp:
        """Replace one operation by a call of the group that is just it."""
        operands = list(dict.fromkeys(op.operands))
        places = tuple(operands.index(operand) for operand in op.operands)
        types = tuple(result.type for result in op.results)
        key: Key = (
            op.name,
            tuple(op.properties.items()),
            tuple(operand.type for operand in operands),
            places,
            types,
            op.attributes.get(SOURCE) if isinstance(op, CHECKED) else None,
        )

        def build() -> Region:
            block = Block(arg_types=[operand.type for operand in operands])
            copy = op.clone(dict(zip(operands, block.args, strict=True)))
            if not isinstance(op, CHECKED):
                copy.attributes.pop(SOURCE, None)
            block.add_ops([copy, nn.YieldOp(*copy.results)])
            return Region(block)

        name = self.add(key, op.name.split(".")[1], build)
        call = nn.CallOp(name, operands, types)
        substitute([op], call, dict(zip(op.results, call.ys, strict=True)), op)
        return call

    def beside(self, call: nn.CallOp, user: nn.CallOp) -> nn.CallOp:
        """Return a copy of a call that has just one of its users, which stays where it is."""
        mine = call.clone()
        assert call.parent is not None
        call.parent.insert_op_before(mine, call)
        mapped: dict[SSAValue, SSAValue] = dict(zip(call.ys, mine.ys, strict=True))
        for i, operand in enumerate(user.operands):
            if operand in mapped:
                user.operands[i] = mapped[operand]
        return mine

    def merge(self, first: nn.CallOp, second: nn.CallOp) -> nn.CallOp | None:
        """Replace two calls, the second using results of the first, by one of both's work.

        Results of `first` that others use stay results, after those of `second`. Reshapes between
        the two go into the group. Returns None where no order of operations allows it, and where
        one of the two runs on the host and the other does not.
        """
        a, b = self.called(first), self.called(second)
        if (a.host is None) != (b.host is None):
            return None
        wiring = Wiring.of(first, second)
        place = wiring.place()
        if place is None:
            return None
        name = self.add(wiring.key(a, b), _stem(a, b), lambda: wiring.build(a, b), a.host)
        outs = [*second.ys, *wiring.kept]
        call = nn.CallOp(name, wiring.operands, [value.type for value in outs])
        substitute([first, second], call, dict(zip(outs, call.ys, strict=True)), place)
        parent = call.parent
        assert parent is not None
        for reshape in reversed(wiring.between):
            reshape.detach()
            if reshape.y.uses:
                parent.insert_op_after(reshape, call)
            else:
                reshape.erase()
        return call


def substitute(
    old: Sequence[Operation],
    new: nn.CallOp,
    results: dict[SSAValue, SSAValue],
    place: Operation,
) -> None:
    """Put `new` before `place`, give it the sources and results of `old`, and erase those."""
    block = place.parent
    assert block is not None
    inherit_source([new], old)
    block.insert_op_before(new, place)
    for before, after in results.items():
        after.name_hint = before.name_hint
        before.replace_all_uses_with(after)
    for op in reversed(old):
        op.detach()
        op.erase(safe_erase=False)


@dataclass
class Wiring:
    """How two calls become one: operands, the reshapes between them, results that stay."""

    first: nn.CallOp
    second: nn.CallOp
    between: list[nn.ReshapeOp]
    operands: list[SSAValue]
    kept: list[SSAValue]

    @staticmethod
    def of(first: nn.CallOp, second: nn.CallOp) -> Wiring:
        """Find how `second` uses `first`."""
        between: list[nn.ReshapeOp] = []
        made: set[SSAValue] = set(first.ys)
        for operand in second.xs:
            chain = reshapes_to(operand, made)
            between += [op for op in chain or () if op not in between]
        made |= {op.y for op in between}
        outside = [x for x in second.xs if x not in made]
        operands = list(dict.fromkeys([*first.xs, *outside]))
        inside: set[Operation] = {second, *between}
        kept: list[SSAValue] = [
            y for y in first.ys if any(use.operation not in inside for use in y.uses)
        ]
        for op in between:
            if any(use.operation not in inside for use in op.y.uses):
                kept += [y for y in [before_reshapes(op.y)] if y not in kept]
        return Wiring(first, second, between, operands, kept)

    def place(self) -> Operation | None:
        """Return where the merged call can stand: at the second, or at the first."""
        inside: set[Operation] = {self.second, *self.between}
        others = [use.operation for y in self.first.ys for use in y.uses]
        others = [op for op in others if op not in inside]
        others += [
            use.operation for op in self.between for use in op.y.uses if use.operation not in inside
        ]
        if all(self.second.is_before_in_block(_in_block(op, self.second)) for op in others):
            return self.second
        late = [x for x in self.operands if x not in self.first.xs]
        early = all(
            not isinstance(x.owner, Operation) or x.owner.is_before_in_block(self.first)
            for x in late
        )
        return self.first if early and not _binds_between(self.first, self.second) else None

    def key(self, a: nn.GroupOp, b: nn.GroupOp) -> Key:
        """Return what the merged group is made of."""
        made = [*self.first.ys, *(op.y for op in self.between)]
        order = {value: i for i, value in enumerate([*made, *self.operands])}
        return (
            "merge",
            a.sym_name.data,
            b.sym_name.data,
            tuple(self.operands.index(x) for x in self.first.xs),
            tuple(order[x] for x in self.second.xs),
            tuple((order[op.x], op.y.type) for op in self.between),
            tuple(order[y] for y in self.kept),
        )

    def build(self, a: nn.GroupOp, b: nn.GroupOp) -> Region:
        """Return the body that does the work of `a`, the reshapes, and `b`."""
        block = Block(arg_types=[x.type for x in self.operands])
        values: dict[SSAValue, SSAValue] = dict(zip(self.operands, block.args, strict=True))
        values |= zip(
            self.first.ys, inline(a, block, [values[x] for x in self.first.xs]), strict=True
        )
        for op in self.between:
            block.add_op(new := op.clone({op.x: values[op.x]}))
            new.attributes.pop(SOURCE, None)
            values[op.y] = new.y
        outs = inline(b, block, [values[x] for x in self.second.xs])
        block.add_op(nn.YieldOp(*outs, *(values[y] for y in self.kept)))
        return Region(block)


def inline(group: nn.GroupOp, block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
    """Append a group's operations to `block` and return its results there."""
    values: dict[SSAValue, SSAValue] = dict(zip(group.body.block.args, args, strict=True))
    for op in group.body.block.ops:
        if isinstance(op, nn.YieldOp):
            return [values[y] for y in op.ys]
        copy = op.clone(values)
        block.add_op(copy)
    raise AssertionError("a group ends in nn.yield")


def reshapes_to(value: SSAValue, made: set[SSAValue]) -> list[nn.ReshapeOp] | None:
    """Return the reshapes from a value in `made` to `value`, first one first; None if none."""
    chain: list[nn.ReshapeOp] = []
    while value not in made:
        if not isinstance(value.owner, nn.ReshapeOp):
            return None
        chain.append(value.owner)
        value = value.owner.x
    return chain[::-1]


def before_reshapes(value: SSAValue) -> SSAValue:
    """Return what a value is a reshape of, of a reshape of, and so on."""
    while isinstance(value.owner, nn.ReshapeOp):
        value = value.owner.x
    return value


def is_assumed(value: SSAValue) -> bool:
    """Whether any of the reshapes that gave a value takes its number of elements on trust."""
    while isinstance(value.owner, nn.ReshapeOp):
        if value.owner.assumed is not None:
            return True
        value = value.owner.x
    return False


def comes_from(value: SSAValue, call: nn.CallOp) -> bool:
    """Whether a value is a result of `call`, or a reshape of one."""
    return reshapes_to(value, set(call.ys)) is not None


def users(call: nn.CallOp) -> list[Operation]:
    """Return what uses a call's results, looking through reshapes, each once."""
    found: dict[Operation, None] = {}
    pending: list[SSAValue] = list(call.ys)
    while pending:
        for use in pending.pop().uses:
            if isinstance(use.operation, nn.ReshapeOp):
                pending.append(use.operation.y)
            else:
                found[use.operation] = None
    return list(found)


def calls_in(block: Block) -> list[nn.CallOp]:
    """Return the calls of a block, in order."""
    return [op for op in block.ops if isinstance(op, nn.CallOp)]


def calls_of(function: FuncOp) -> list[nn.CallOp]:
    """Return the calls of a function, those in branches of its switches among them."""
    return [call for block in blocks_in(function.body.block) for call in calls_in(block)]


def body_ops(group: nn.GroupOp) -> list[Operation]:
    """Return a group's operations without its yield."""
    return list(group.body.block.ops)[:-1]


def _stem(a: nn.GroupOp, b: nn.GroupOp) -> str:
    """Name a merged group after its parts, while that is short."""
    name = f"{a.sym_name.data}_{b.sym_name.data}"
    return (
        name if len(name) <= LONGEST_NAME else f"fused_{group_anchor([*body_ops(a), *body_ops(b)])}"
    )


def _binds_between(first: nn.CallOp, second: nn.CallOp) -> bool:
    """Whether symbols are bound between two calls, so that types of the second may name them."""
    op = first.next_op
    while op is not None and op is not second:
        if isinstance(op, nn.BindOp):
            return True
        op = op.next_op
    return False


def _in_block(op: Operation, beside: Operation) -> Operation:
    """Return the operation of `beside`'s block that holds `op`."""
    while op.parent is not beside.parent:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def _set_schedule(group: nn.GroupOp, schedule: Attribute) -> None:
    group.schedule = cast("ScheduleAttr", schedule)
