"""Plans under construction, and what they compute when every kernel makes a hash."""

import random
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from lamina.dialects.areas import Columns
from lamina.dialects.dims import Dim
from lamina.dialects.plan import (
    AllocOp,
    ArenaOp,
    BufferType,
    CallOp,
    CopyOp,
    HostOp,
    LaunchOp,
    ReturnOp,
    SwitchOp,
    ViewOp,
    columns_of,
    strides_of,
)
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.tile import KernelOp, pair_list, pairs
from lamina.dialects.tile import ReturnOp as KernelReturnOp
from lamina.passes.plan_copies import PlanCopiesPass
from lamina.passes.plan_memory import PlanMemoryPass
from lamina.passes.strided_memrefs import make_strided
from lamina.passes.verify_plan import VerifyPlanPass

Call = tuple[Sequence[SSAValue], Sequence[str], Sequence[tuple[int, int]]]


def buffer(size: str) -> BufferType:
    return BufferType(tensor(i32, [size]))


@dataclass
class Plan:
    """A plan under construction; every call has a kernel of its own."""

    blocks: list[Block] = field(default_factory=lambda: [Block()])
    kernels: list[KernelOp] = field(default_factory=list)
    roles: list[DictionaryAttr] = field(default_factory=list)

    def add(self, op: Operation) -> Any:
        self.blocks[-1].add_op(op)
        return op.results[0] if op.results else None

    def arg(self, role: str, size: str) -> SSAValue:
        self.roles.append(DictionaryAttr({f"lamina.{role}": UnitAttr()}))
        arg = self.blocks[0].insert_arg(buffer(size), len(self.roles) - 1)
        arg.name_hint = f"{role}{len(self.roles) - 1}"
        return arg

    def alloc(self, size: str, name: str | None = None) -> SSAValue:
        value = self.add(AllocOp(buffer(size)))
        value.name_hint = name
        return value

    def view(self, x: SSAValue, size: str, offset: str = "0") -> SSAValue:
        return self.add(ViewOp(x, Dim.of(offset), buffer(size)))

    def columns(self, x: SSAValue, offset: str, width: int, rows: str = "T") -> SSAValue:
        """Columns of a matrix of 32 columns."""
        kind = BufferType(tensor(i32, [rows, width]))
        return self.add(ViewOp(x, Dim.of(offset), kind, columns=Columns(1, Dim.of(32))))

    def launch(self, *calls: Call) -> None:
        block = Block([self.call(*call) for call in calls])
        self.add(LaunchOp(Region(block)))

    def copy(self, x: SSAValue, y: SSAValue) -> None:
        self.launch(([x, y], ["read", "write"], []))

    def call(
        self, values: Sequence[SSAValue], access: Sequence[str], aliases: Sequence[tuple[int, int]]
    ) -> CallOp:
        name = f"n{len(self.kernels)}"
        body = Region(Block([KernelReturnOp()], arg_types=[v.type.memref for v in values]))
        for argument, value in zip(body.block.args, values, strict=True):
            if (columns := columns_of(value)) is not None:
                make_strided(argument, columns.outer)
        texts = [ArrayAttr(map(StringAttr, each)) for each in ([], ["1"], access)]
        properties = dict(zip(("symbols", "grid", "access"), texts, strict=True))
        properties |= {"sym_name": StringAttr(name), "aliases": pair_list(aliases)}
        self.kernels.append(KernelOp.create(properties=properties, regions=[body]))
        return CallOp(name, values, [])

    @contextmanager
    def branch(self) -> Any:
        self.blocks.append(Block())
        yield self.blocks[-1]
        self.blocks.pop()

    def module(self) -> ModuleOp:
        self.add(ReturnOp())
        block = self.blocks[0]
        forward = FuncOp(
            "forward",
            ([arg.type for arg in block.args], []),
            Region(block),
            arg_attrs=ArrayAttr(self.roles),
        )
        module = ModuleOp([*self.kernels, forward])
        module.verify()
        return module


def planned(module: ModuleOp) -> ModuleOp:
    module = module.clone()
    PlanMemoryPass().apply(Context(), module)
    return module


def copied(module: ModuleOp) -> ModuleOp:
    module = module.clone()
    PlanCopiesPass().apply(Context(), module)
    return module


def verify(module: ModuleOp) -> None:
    VerifyPlanPass().apply(Context(), module)


def views(module: ModuleOp) -> dict[str, ViewOp]:
    """The views of the arena by name."""
    return {
        str(op.y.name_hint): op
        for op in module.walk()
        if isinstance(op, ViewOp) and isinstance(op.x.owner, ArenaOp)
    }


def move(view: ViewOp, offset: str) -> None:
    view.properties["offset"] = StringAttr(offset)


def simulate(module: ModuleOp, symbols: dict[str, int], seed: int = 0) -> list[list[int]]:
    """Run a plan whose kernels make a hash of their whole operands; return its arguments.

    What a kernel writes is spoilt before it reads, and the calls of a launch come in any order.
    """
    return Simulation(module, symbols, random.Random(seed)).run()


class Simulation:
    """A run of a plan for given symbols, over real memory."""

    def __init__(self, module: ModuleOp, symbols: dict[str, int], rng: random.Random) -> None:
        self.symbols, self.rng = symbols, rng
        self.memory: dict[SSAValue, np.ndarray] = {}
        self.kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        self.block = next(op for op in module.ops if isinstance(op, FuncOp)).body.block

    def run(self) -> list[list[int]]:
        for n, arg in enumerate(self.block.args):
            self.memory[arg] = np.full(self.size(arg), n + 1, np.uint8)
        self.follow(self.block)
        return [self.ints(arg).tolist() for arg in self.block.args]

    def size(self, value: SSAValue) -> int:
        return value.type.bytes.evaluate(self.symbols)

    def ints(self, value: SSAValue) -> np.ndarray:
        return self.memory[value].view(np.int32)

    def follow(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, AllocOp | ArenaOp):
                self.memory[op.y] = np.full(self.size(op.y), 0x55, np.uint8)
            elif isinstance(op, ViewOp):
                start = Dim.of(op.offset.data).evaluate(self.symbols)
                assert start + self.size(op.y) <= self.size(op.x)
                self.memory[op.y] = self.memory[op.x][start : start + self.size(op.y)]
                if op.columns is not None:
                    shape = [n.evaluate(self.symbols) for n in extents(op.y.type.tensor)]
                    strides = [4 * n.evaluate(self.symbols) for n in strides_of(op.y)]
                    matrix = self.memory[op.x][start:].view(np.int32)
                    self.memory[op.y] = as_strided(matrix, shape, strides)
            elif isinstance(op, LaunchOp):
                for call in self.rng.sample(op.calls, len(op.calls)):
                    kernel = self.kernels[call.callee.string_value()]
                    self.compute(call.buffers, kernel.access, pairs(kernel.aliases))
            elif isinstance(op, HostOp):
                self.compute(op.buffers, op.access, ())
            elif isinstance(op, CopyOp):
                self.memory[op.y][:] = self.memory[op.x]
            elif isinstance(op, SwitchOp):
                value = Dim.of(op.value.data).evaluate(self.symbols)
                branch = sum(value > int(bound) for bound in op.bounds.get_values())
                self.follow(op.branches[branch].block)

    def compute(self, buffers: Any, access: Any, aliases: Any) -> None:
        access = [each.data for each in access]
        place = [self.memory[v].__array_interface__["data"][0] for v in buffers]
        shared = {b for a, b in aliases if place[a] == place[b]}
        for i, each in enumerate(access):
            if each == "write" and i not in shared:
                self.ints(buffers[i])[...] = -7
        seen = 0
        for i, each in enumerate(access):
            if each != "write":
                content = self.ints(buffers[i]).astype(np.int64).reshape(-1)
                total = int((content * np.arange(1, len(content) + 1)).sum())
                seen = (seen * 31 + total) % (1 << 31)
        for i, each in enumerate(access):
            if each != "read":
                index = np.arange(self.size(buffers[i]) // 4)
                found = (index * 7919 + seen + i) % (1 << 31)
                self.ints(buffers[i])[...] = found.reshape(self.ints(buffers[i]).shape)
