"""Boxes that are copied into shared memory, and the barriers that count their bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import simt
from lamina.dialects.tile import element_of, values
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.interpreter import Meaning
from lamina.targets.reference.simt_memory import Memory
from lamina.targets.reference.simt_warpgroups import swizzled
from lamina.targets.reference.thread_block import ThreadBlock
from lamina.targets.reference.tile import poison

Args = tuple[Any, ...]


class _Box(NamedTuple):
    """A copy that is under way: where it goes, and what comes."""

    op: simt.CopyTensorOp
    memory: Memory
    places: Array
    data: Array


@dataclass
class _Mbarrier:
    """A barrier: the number of its phase, whether the first thread arrived, and bytes to come."""

    phase: int = 0
    arrived: bool = False
    missing: int = 0
    boxes: list[_Box] = field(default_factory=list[_Box])


def _init(run: ThreadBlock, op: simt.MbarrierInitOp, args: Args) -> tuple[()]:
    memory = cast("Memory", args[0])
    size = memory.elements.size
    run.touch(op, memory, np.arange(size), np.zeros(size, np.int64), "write")
    run.mbarriers |= {(id(memory), n): _Mbarrier() for n in range(size)}
    return ()


def _mbarrier(run: ThreadBlock, op: Operation, memory: Memory, n: Any, threads: Array) -> _Mbarrier:
    number = int(run.steady(op, n))
    run.touch(op, memory, np.full(len(threads), number), threads, "read")
    found = run.mbarriers.get((id(memory), number))
    if found is None:
        raise run.error(op, f"nobody made barrier {number}")
    return found


def _arrive(run: ThreadBlock, op: simt.MbarrierArriveOp, args: Args) -> tuple[()]:
    memory, n = args
    barrier = _mbarrier(run, op, memory, n, run.threads[:1])
    if barrier.arrived:
        raise run.error(op, "the first thread arrives twice in a phase")
    barrier.arrived = True
    barrier.missing += op.bytes.value.data
    return ()


def _copy(run: ThreadBlock, op: simt.CopyTensorOp, args: Args) -> tuple[()]:
    box = values(op.box)
    source, *starts, memory, to, b, n = args
    first = run.threads[:1]
    barrier = _mbarrier(run, op, b, n, first)
    at = np.indices(box).reshape(len(box), -1)
    at += np.array([int(run.steady(op, start)) for start in starts])[:, None]
    extents = np.array(source.shape)[:, None]
    inside = ((at >= 0) & (at < extents)).all(0)
    wanted = (np.array(source.strides) @ at)[inside]
    run.touch(op, source, wanted, first.repeat(len(wanted)), "read")
    data = np.zeros(inside.shape, source.elements.dtype)
    data[inside] = source.elements[wanted]
    row, column = np.divmod(np.arange(inside.size), simt.SWIZZLED_ROW)
    start = int(run.steady(op, to))
    if start % (8 * simt.SWIZZLED_ROW):
        raise run.error(op, f"a box comes to element {start}, which is no multiple of 512")
    places = start + swizzled(row, column, (8 * simt.SWIZZLED_ROW, 0))
    run.touch(op, memory, places, first.repeat(len(places)), "write")
    memory.elements[places] = poison(element_of(op.m.type), ())
    barrier.boxes.append(_Box(op, memory, places, data.view(memory.elements.dtype)))
    return ()


def _wait(run: ThreadBlock, op: simt.MbarrierWaitOp, args: Args) -> tuple[()]:
    memory, n, parity = args
    barrier = _mbarrier(run, op, memory, n, run.threads[[0, -1]])
    if barrier.phase & 1 != int(run.steady(op, parity)):
        return ()
    boxes, barrier.boxes = barrier.boxes, []
    for box in boxes:
        _land(run, box)
        barrier.missing -= box.op.bytes
    if barrier.missing or not barrier.arrived:
        raise run.error(
            op, f"threads wait for ever: {barrier.missing} bytes are missing"
            + ("" if barrier.arrived else ", and the first thread did not arrive")
        )  # fmt: skip
    barrier.phase, barrier.arrived = barrier.phase + 1, False
    return ()


def _land(run: ThreadBlock, box: _Box) -> None:
    nothing = poison(element_of(box.op.m.type), ())
    if (box.memory.elements[box.places] != nothing).any():
        raise run.error(box.op, "somebody wrote where a box was to come")
    box.memory.elements[box.places] = box.data


MEANINGS: dict[type[Operation], Meaning] = cast(
    "Any",
    {
        simt.CopyTensorOp: _copy,
        simt.MbarrierArriveOp: _arrive,
        simt.MbarrierInitOp: _init,
        simt.MbarrierWaitOp: _wait,
    },
)
"""What the operations do; each is run by a `ThreadBlock`."""
