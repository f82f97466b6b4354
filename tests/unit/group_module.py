"""One group as a module, run by its operations' meanings and as the kernel built of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    f16,
    f32,
    i1,
    i8,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

import lamina
from lamina.dialects import nn
from lamina.dialects.cache import PagesType
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.tile import ScheduleAttr

ELEMENTS = {"f32": f32, "f16": f16, "i32": i32, "i8": i8, "i1": i1}


def typed(text: str) -> Attribute:
    """The tensor type of `f32[T, 33]`."""
    element, _, shape = text.rstrip("]").partition("[")
    return tensor(ELEMENTS[element], [dim.strip() for dim in shape.split(",") if dim])


@dataclass
class Body:
    """A group's operations under construction."""

    block: Block = field(default_factory=Block)

    def arg(self, kind: str | Attribute) -> SSAValue:
        """A new argument of the group."""
        type = typed(kind) if isinstance(kind, str) else kind
        return self.block.insert_arg(type, len(self.block.args))

    def add(self, op: Operation) -> Any:
        """Append an operation; its result, or its results if there are several."""
        self.block.add_op(op)
        return op.results[0] if len(op.results) == 1 else list(op.results)


def module_of(
    build: Callable[[Body], SSAValue | Sequence[SSAValue]], anchor: str, **schedule: int
) -> ModuleOp:
    """A module whose `@forward` calls one group: inputs x0, x1, …, outputs y0, y1, …

    An argument that is a page pool is the state of its name, `x0`; so is the pool made of it.
    """
    body = Body()
    found = build(body)
    outs = [found] if isinstance(found, SSAValue) else list(found)
    body.block.add_op(nn.YieldOp(*outs))
    group = nn.GroupOp(
        "g", anchor, Region(body.block), ScheduleAttr.of(**schedule) if schedule else None
    )
    types = [arg.type for arg in body.block.args]
    block = Block(arg_types=types)
    call = nn.CallOp("g", block.args, [out.type for out in outs])
    block.add_ops([call, ReturnOp(*call.ys)])
    pools = [f"x{i}" for i, type in enumerate(types) if isinstance(type, PagesType)]
    function = FuncOp(
        "forward",
        (types, [out.type for out in outs]),
        Region(block),
        arg_attrs=_named("input", "x", types, pools),
        res_attrs=_named("output", "y", [out.type for out in outs], pools),
    )
    module = ModuleOp([group, function])
    module.verify()
    return module


def _named(role: str, letter: str, types: Sequence[Attribute], pools: list[str]) -> Any:
    states = iter(pools)
    return ArrayAttr(
        DictionaryAttr(
            {"lamina.state": StringAttr(next(states))}
            if isinstance(type, PagesType)
            else {f"lamina.{role}": StringAttr(f"{letter}{i}")}
        )
        for i, type in enumerate(types)
    )


class Run:
    """A module after a pipeline, run by the meanings of its operations."""

    def __init__(self, module: ModuleOp, pipeline: str) -> None:
        self.call = lamina.compile(module, target="reference", pipeline=pipeline, weights={})

    def __call__(self, arrays: Sequence[np.ndarray]) -> Mapping[str, np.ndarray]:
        """The outputs, and the arguments as they are afterwards."""
        given = {f"x{i}": array.copy() for i, array in enumerate(arrays)}
        return {**given, **self.call(**given)}


def arrays_of(module: ModuleOp, **sizes: int) -> list[np.ndarray]:
    """Random arrays for the group's arguments: numbers around 0, and any bytes."""
    group = next(op for op in module.ops if isinstance(op, nn.GroupOp))
    return arrays_of_types([arg.type for arg in group.body.block.args], **sizes)


def arrays_of_types(types: Sequence[Attribute], **sizes: int) -> list[np.ndarray]:
    """Random arrays of these types."""
    return [_random(type, sizes, seed) for seed, type in enumerate(types)]


def _random(type: Attribute, sizes: Mapping[str, int], seed: int) -> np.ndarray:
    kind: Any = type.storage if isinstance(type, PagesType) else type
    shape = [dim.evaluate(sizes) for dim in extents(kind)]
    rng, element = np.random.default_rng(seed), kind.get_element_type()
    if element == i8:
        return rng.integers(-127, 128, shape).astype(np.int8)
    if element == i32:
        return rng.integers(0, 7, shape).astype(np.int32)
    return rng.normal(0, 1, shape).astype(np.float16 if element == f16 else np.float32)


def compare(
    module: ModuleOp, *cases: Sequence[np.ndarray], atol: float = 2e-6, rtol: float = 2e-6
) -> None:
    """The kernel gives what the group means, on each list of arguments; integers exactly."""
    kernel, meaning = Run(module, "lower-groups"), Run(module, "")
    for arrays in cases:
        found = kernel(arrays)
        for name, expected in meaning(arrays).items():
            exact = expected.dtype.kind != "f"
            tolerance = (0.0, 0.0) if exact else (rtol, atol)
            np.testing.assert_allclose(found[name], expected, *tolerance, err_msg=name)
