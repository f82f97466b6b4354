"""Give host calls memory of the host, and copy to and from the device what they read and write."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from lamina.dialects.dims import Dim
from lamina.dialects.plan import (
    HOST,
    AllocOp,
    BufferType,
    CallOp,
    CopyOp,
    HostOp,
    LaunchOp,
    SwitchOp,
    ViewOp,
    is_host,
)
from lamina.dialects.tile import AnyKernelOp
from lamina.passes.live_ranges import kernels_of, root_of, start_of
from lamina.passes.rewriting import inherit_source


@dataclass(frozen=True)
class PlanCopiesPass(ModulePass):
    """Host calls work on memory of the host alone: `plan.copy` brings there what they read, and
    to the device what they write.

    What is on the host already, and was not written since, is not copied again; what no kernel
    reads stays on the host. Packed weights are on both from load on, and never copied.
    """

    name = "plan-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every function in place."""
        for function in [each for each in op.ops if isinstance(each, FuncOp)]:
            _Copies(kernels_of(function), _packed(function)).follow(function.body.block, {})
            _drop_unread(function)


_Part = tuple[SSAValue, str, str]
"""Bytes of a buffer on the device: what it is a view of, from where on, and how many."""

_Held = dict[_Part, SSAValue]
"""The buffers on the host that hold what a part does."""


@dataclass
class _Copies:
    kernels: Mapping[str, AnyKernelOp]
    packed: Set[SSAValue]

    def follow(self, block: Block, held: _Held) -> _Held:
        """Give the host calls of a block their copies; return what the host holds after it."""
        for op in list(block.ops):
            if isinstance(op, HostOp):
                self._move(op, held)
            elif isinstance(op, LaunchOp):
                for call in op.calls:
                    self._forget_written(call, held)
            elif isinstance(op, CopyOp):
                _forget(op.y, held)
            elif isinstance(op, SwitchOp):
                ends = [self.follow(branch.block, dict(held)) for branch in op.branches]
                held = {
                    part: value
                    for part, value in held.items()
                    if all(end.get(part) is value for end in ends)
                }
        return held

    def _forget_written(self, call: CallOp, held: _Held) -> None:
        access = self.kernels[call.callee.string_value()].access
        for buffer, how in zip(call.buffers, access, strict=True):
            if how.data != "read":
                _forget(buffer, held)

    def _move(self, op: HostOp, held: _Held) -> None:
        """Put buffers of the host in place of those of the device."""
        given = list(zip(op.buffers, op.access, strict=True))
        written: list[CopyOp] = []
        for i, (buffer, how) in enumerate(given):
            if is_host(buffer) or root_of(buffer) in self.packed:
                continue
            mine = _new(buffer, op) if how.data == "write" else _brought(buffer, op, held)
            op.operands[i] = mine
            if how.data != "read":
                written.append(CopyOp(mine, buffer))
        for copy in written:
            _forget(copy.y, held)
        for copy in written:
            held[_part(copy.y)] = root_of(copy.x)
        inherit_source(written, [op])
        Rewriter.insert_op(written, InsertPoint.after(op))


def _packed(function: FuncOp) -> set[SSAValue]:
    """Return the packed weights among a function's arguments."""
    attributes = function.arg_attrs or ()
    pairs = zip(function.body.block.args, attributes, strict=False)
    return {argument for argument, each in pairs if "lamina.packed" in each.data}


def _brought(buffer: SSAValue, op: HostOp, held: _Held) -> SSAValue:
    """Return the buffer on the host that holds what one on the device does, copied if need be."""
    part = _part(buffer)
    if part not in held:
        held[part] = _new(buffer, op)
        copy = CopyOp(buffer, held[part])
        inherit_source([copy], [op])
        Rewriter.insert_op(copy, InsertPoint.before(op))
    if held[part].type == buffer.type:
        return held[part]
    view = ViewOp(held[part], Dim.of(0), buffer.type)
    Rewriter.insert_op(view, InsertPoint.before(op))
    return view.y


def _new(buffer: SSAValue, op: HostOp) -> SSAValue:
    """Return memory of the host for what is in a buffer of the device."""
    alloc = AllocOp(cast("BufferType", buffer.type), HOST)
    alloc.y.name_hint = f"{buffer.name_hint}_host" if buffer.name_hint else None
    Rewriter.insert_op(alloc, InsertPoint.before(op))
    return alloc.y


def _part(buffer: SSAValue) -> _Part:
    size = cast("BufferType", buffer.type).bytes
    return root_of(buffer), str(start_of(buffer)), str(size)


def _forget(buffer: SSAValue, held: _Held) -> None:
    """Drop what the host holds of a buffer that is written."""
    root = root_of(buffer)
    for part in [part for part in held if part[0] is root]:
        del held[part]


def _drop_unread(function: FuncOp) -> None:
    """Erase the buffers of the device that copies write and nothing reads."""
    for alloc in [op for op in function.walk() if isinstance(op, AllocOp)]:
        users = _users(alloc.y)
        copies = [op for op in users if isinstance(op, CopyOp) and not is_host(op.y)]
        views = [op for op in users if isinstance(op, ViewOp)]
        if copies and len(copies) + len(views) == len(users):
            for op in (*copies, *reversed(views), alloc):
                Rewriter.erase_op(op)


def _users(value: SSAValue) -> list[Operation]:
    """Return what takes a buffer or a view of it, a view before those of it."""
    found: list[Operation] = []
    for use in value.uses:
        found.append(use.operation)
        if isinstance(use.operation, ViewOp):
            found += _users(use.operation.y)
    return found
