"""Move what depends on weights alone into `@prepare`, which runs once, at load."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn, quant
from lamina.dialects.dims import product
from lamina.dialects.names import hint_of
from lamina.dialects.tensors import extents
from lamina.passes.constants import depends_on_weights, is_listed
from lamina.passes.functions import EMPTY, argument_attributes, find_function, retype

WEIGHT, PACKED = "lamina.weight", "lamina.packed"


@dataclass(frozen=True)
class PrepareWeightsPass(ModulePass):
    """`@prepare` computes all that depends on weights alone; `@forward` takes its results.

    What only makes a weight larger stays in `@forward`, to be fused with its use: widening casts,
    dequantising, repetition, constants of one value.
    """

    name = "prepare-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        forward = find_function(op, "forward")
        if forward is None or find_function(op, "prepare") is not None:
            return
        _Split(op, forward).run()


class _Split:
    def __init__(self, module: ModuleOp, forward: FuncOp) -> None:
        self.module, self.forward = module, forward
        self.block = Block()
        self.map: dict[SSAValue, SSAValue] = {}
        self.sources: list[DictionaryAttr] = []
        self.names: dict[SSAValue, str] = {}

    def run(self) -> None:
        """Build `@prepare` and give `@forward` its results as arguments."""
        constant = depends_on_weights(self.forward)
        weights = {
            arg: attributes.data[WEIGHT]
            for arg, attributes in argument_attributes(self.forward)
            if WEIGHT in attributes.data
        }
        for arg, name in weights.items():
            assert isinstance(name, StringAttr)
            self.names[arg] = name.data
        moved = _moved(list(self.forward.body.block.ops), constant)
        inside = set(moved)
        needed = self._needed(moved, inside, list(weights))
        for arg, name in weights.items():
            self.map[arg] = self.block.insert_arg(arg.type, len(self.block.args))
            self.map[arg].name_hint = arg.name_hint
            self.sources.append(DictionaryAttr({WEIGHT: name}))
        for op in moved:
            self._bring_operands(op)
            self.block.add_op(op.clone(self.map))
        self._return(needed)
        self._replace(needed, moved, list(weights))

    def _needed(
        self, moved: list[Operation], inside: set[Operation], weights: list[SSAValue]
    ) -> list[SSAValue]:
        """The values that what stays in `@forward` uses."""
        values = [*weights, *(result for op in moved for result in op.results)]
        return [v for v in values if any(use.operation not in inside for use in v.uses)]

    def _bring_operands(self, op: Operation) -> None:
        """Have what stays in `@forward` here too, for an operation that uses it."""
        for operand in op.operands:
            if operand not in self.map and isinstance(operand, OpResult):
                self._bring_operands(operand.op)
                self.block.add_op(copy := operand.op.clone(self.map))
                self.map |= dict(zip(operand.op.results, copy.results, strict=True))

    def _return(self, needed: list[SSAValue]) -> None:
        self.block.add_op(ReturnOp(*(self.map[value] for value in needed)))
        used = self._used_names(needed)
        results = [DictionaryAttr({PACKED: StringAttr(name)}) for name in used]
        arguments = [arg.type for arg in self.block.args]
        function = FuncOp(
            "prepare",
            (arguments, [value.type for value in needed]),
            Region(self.block),
            arg_attrs=ArrayAttr(self.sources),
            res_attrs=ArrayAttr(results),
        )
        self.module.body.block.insert_op_before(function, self.forward)

    def _used_names(self, needed: list[SSAValue]) -> list[str]:
        """Name each result after the weight that it is made of."""
        stems = [self._stem(value) for value in needed]
        taken: dict[str, None] = {}
        for stem in stems:
            name, n = stem, 2
            while name in taken or (n > 2 and name in stems):
                name, n = f"{stem}.{n}", n + 1
            taken[name] = None
        self.packed = list(taken)
        return self.packed

    def _stem(self, value: SSAValue) -> str:
        if value in self.names:
            return self.names[value]
        op = value.owner
        assert isinstance(op, Operation)
        return self._stem(op.operands[0]) if op.operands else "constant"

    def _replace(
        self, needed: list[SSAValue], moved: list[Operation], weights: list[SSAValue]
    ) -> None:
        block = self.forward.body.block
        kept = [a for arg, a in argument_attributes(self.forward) if arg not in weights]
        for value, name in zip(needed, self.packed, strict=True):
            arg = block.insert_arg(value.type, len(block.args))
            kept.append(DictionaryAttr({PACKED: StringAttr(name)}))
            value.replace_all_uses_with(arg)
            arg.name_hint = hint_of(name).replace(".", "_")
        # Uses inside what moved were replaced as well, but that is erased now.
        for op in reversed(moved):
            op.detach()
            op.erase(safe_erase=False)
        for arg in list(block.args):
            if arg in weights:
                block.erase_arg(arg)
        self.forward.arg_attrs = ArrayAttr(kept) if kept else ArrayAttr([EMPTY])
        retype(self.forward)


def _moved(ops: list[Operation], constant: set[SSAValue]) -> list[Operation]:
    """Return what goes to `@prepare`; of what makes a weight larger, that which is used there."""
    inside = {op for op in ops if _moves(op, constant)}
    for op in reversed(ops):
        uses = [use.operation for result in op.results for use in result.uses]
        if uses and all(result in constant for result in op.results) and _widens(op):
            inside |= {op} if all(user in inside for user in uses) else set()
    return [op for op in ops if op in inside]


def _moves(op: Operation, constant: set[SSAValue]) -> bool:
    if isinstance(op, nn.ConstantOp):
        return is_listed(op)
    if not op.results or not all(result in constant for result in op.results):
        return False
    return not _widens(op)


def _widens(op: Operation) -> bool:
    """Whether an operation only makes a weight larger."""
    if isinstance(op, quant.DequantizeOp):
        return True
    if isinstance(op, nn.BroadcastOp):
        return product(extents(op.x.type)) != product(extents(op.y.type))
    if not isinstance(op, nn.CastOp):
        return False
    before, after = nn.element(op.x), nn.element(op.y)
    return (
        isinstance(before, AnyFloat)
        and isinstance(after, AnyFloat)
        and before.bitwidth < after.bitwidth
    )
