"""Descriptions of tensors that a launch gives its kernel, which copies boxes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lamina.dialects import simt
from lamina.dialects.tile import values
from lamina.targets.cuda.elements import element

if TYPE_CHECKING:
    from lamina.targets.cuda.device import CudaDevice
    from lamina.targets.cuda.printer import Printer

_KINDS: Final = {"f16": "FLOAT16", "bf16": "BFLOAT16", "i16": "UINT16"}
"""What the driver calls the elements."""

_BYTES: Final = 2

Facts = tuple[int, str, tuple[int, ...], tuple[int, ...]]
"""A description as an artifact has it: see `TensorMap`."""


@dataclass(frozen=True)
class TensorMap:
    """What a launch describes: a memref, its elements and extents, and the box that is copied.

    An extent of -1 - n is the word n of the launch. Rows of the box are 128 bytes, whose parts
    change places in shared memory.
    """

    memref: int
    kind: str
    extents: tuple[int, ...]
    box: tuple[int, ...]

    @property
    def facts(self) -> Facts:
        """What an artifact keeps."""
        return self.memref, self.kind, self.extents, self.box

    def encoded(self, device: CudaDevice, addresses: Sequence[int], words: Sequence[int]) -> Any:
        """Return the description of a launch's memref, as the driver encodes it."""
        driver, rank = device.driver, len(self.extents)
        # A tensor of no elements is never read, but cannot be described.
        extents = [max(1, n if n >= 0 else words[-1 - n]) for n in reversed(self.extents)]
        strides: list[int] = []
        for extent in extents[:-1]:
            strides.append(extent * (strides[-1] if strides else _BYTES))
        wide, narrow = (getattr(driver, f"cuuint{bits}_t", int) for bits in (64, 32))
        return device.call(
            "cuTensorMapEncodeTiled",
            getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_KINDS[self.kind]}"),
            rank,
            addresses[self.memref],
            [wide(n) for n in extents],
            [wide(n) for n in strides],
            [narrow(n) for n in reversed(self.box)],
            [narrow(1)] * rank,
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )


def tensor_map_of(p: Printer, op: simt.CopyTensorOp) -> str:
    """Return the parameter that describes what is copied, the same one for the same box."""
    memory = p.memories[op.x]
    extents = tuple(
        -1 - int(text.removeprefix("%w")) if text.startswith("%w") else int(text)
        for text in memory.extents
    )
    number = list(p.memories).index(op.x)
    found = TensorMap(number, element(op.x.type).name, extents, values(op.box))
    if found not in p.maps:
        p.maps.append(found)
    return f"%t{p.maps.index(found)}"


def parameters(maps: Sequence[TensorMap]) -> list[str]:
    """Return the parameters of descriptions, which stay where the launch puts them."""
    kind = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'
    return [f"{kind} %t{n}" for n in range(len(maps))]
