"""Boxes of tensors that come into shared memory, and barriers that count their bytes, in LLVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from lamina.dialects import simt
from lamina.targets.cuda.printer import Printer, Rule
from lamina.targets.cuda.rules_simt import REGISTER, SHARED, place_of, when
from lamina.targets.cuda.tensor_maps import tensor_map_of

_COPY: Final = (
    "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[$0], [$1, {{{}}}], [${}];"
)

_WAIT: Final = "\\0A".join(
    (
        "{ .reg .pred done;",
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;",
        "@done bra through;",
        "bra again;",
        "through: }",
    )
)


def _assembly(p: Printer, text: str, letters: str, *given: str) -> None:
    constraints = ",".join([*letters, "~{memory}"])
    p.add(f'call void asm sideeffect "{text}", "{constraints}"({", ".join(given)}) #1')


def _address(p: Printer, memory: SSAValue, at: str) -> str:
    """Return the address of an element of shared memory, with its type."""
    place = f"ptr addrspace({SHARED}) {place_of(p, p.memories[memory], at)}"
    return f"i32 {p.emit(f'ptrtoint {place} to i32')}"


def _first(p: Printer, body: Sequence[tuple[str, str, Sequence[str]]]) -> None:
    """Print assembly that the first thread does."""
    thread = p.call(f"{REGISTER}.tid.x", "i32")

    def lines() -> Sequence[str]:
        for text, letters, given in body:
            _assembly(p, text, letters, *given)
        return ()

    when(p, p.emit(f"icmp eq i32 {thread}, 0"), lines, "", "")


def _init(p: Printer, op: simt.MbarrierInitOp) -> None:
    (count,) = cast("MemRefType[Any]", op.b.type).get_shape()
    places = [_address(p, op.b, str(n)) for n in range(count)]
    made = [("mbarrier.init.shared::cta.b64 [$0], 1;", "r", [place]) for place in places]
    _first(p, [*made, ("fence.mbarrier_init.release.cluster;", "", [])])


def _arrive(p: Printer, op: simt.MbarrierArriveOp) -> None:
    text = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {op.bytes.value.data};"
    _first(p, [(text, "r", [_address(p, op.b, p.name(op.n))])])


def _copy(p: Printer, op: simt.CopyTensorOp) -> None:
    rank = len(op.at)
    described = tensor_map_of(p, op)
    starts = [f"i32 {p.emit(f'trunc i64 {p.name(at)} to i32')}" for at in reversed(op.at)]
    text = _COPY.format(rank, ", ".join(f"${n + 2}" for n in range(rank)), rank + 2)
    to, barrier = _address(p, op.m, p.name(op.to)), _address(p, op.b, p.name(op.n))
    _first(p, [(text, "r" + "l" + "r" * (rank + 1), [to, f"ptr {described}", *starts, barrier])])


def _wait(p: Printer, op: simt.MbarrierWaitOp) -> None:
    parity = p.emit(f"trunc i64 {p.name(op.parity)} to i32")
    _assembly(p, _WAIT, "rr", _address(p, op.b, p.name(op.n)), f"i32 {parity}")


RULES: Final[dict[type[Operation], Rule]] = {
    simt.CopyTensorOp: _copy,
    simt.MbarrierArriveOp: _arrive,
    simt.MbarrierInitOp: _init,
    simt.MbarrierWaitOp: _wait,
}
"""How each operation is printed."""
