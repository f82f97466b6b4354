"""Kernels on a device: their pipelines, and the words that a dispatch gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from lamina.progress import report
from lamina.targets.base import Array
from lamina.targets.devices.fitting import check_fits, check_numbers, element_counts
from lamina.targets.plans.dispatches import Dispatch
from lamina.targets.webgpu.device import Device, errors_said
from lamina.targets.webgpu.functions import Ability
from lamina.targets.webgpu.wgsl import KernelText
from lamina.targets.webgpu.windows import Bound, Storage, Window

_COMPUTE: Final = 4
"""The stage that bindings are seen by."""


@dataclass(frozen=True)
class Form:
    """A kernel's pipeline for memrefs that lie in so many windows, and the layout of these."""

    layout: Any
    pipeline: Any


class CompiledKernel:
    """A kernel on a device: a form of it for each number of windows that was bound so far."""

    def __init__(self, device: Device, text: KernelText, *, subgroups: bool) -> None:
        """Compile the form that static extents ask for; `subgroups` as in `compile_kernels`."""
        self.text = text
        self._device = device
        self._ability = Ability(subgroups and device.subgroup >= text.subgroup, device.fused)
        self._forms: dict[tuple[int, ...], Form] = {}
        self.form(text.windows(device.window))

    def form(self, windows: tuple[int, ...]) -> Form:
        """Return the form for memrefs in so many windows, compiled when it is first asked for."""
        if windows not in self._forms:
            device, text = self._device, self.text
            with errors_said(device):
                layout = device.handle.create_bind_group_layout(entries=_entries(text, windows))
            code = text.text(self._ability, windows, device.window)
            self._forms[windows] = Form(layout, device.pipeline(code, layout, text.name))
        return self._forms[windows]

    def buffers(self, windows: Sequence[int]) -> int:
        """Return how many storage buffers are bound for memrefs in so many windows."""
        return sum(windows) + self.text.checks

    def bind(self, words: Window, memrefs: Sequence[Bound], failed: Storage) -> tuple[Any, Any]:
        """Return the pipeline for memrefs that lie so, and the group of what is bound for it."""
        form = self.form(tuple(len(each.windows) for each in memrefs))
        given = [words, *(window for each in memrefs for window in each.windows)]
        if self.text.checks:
            given.append(Window(failed.parts[0], 0, 4))
        entries = [
            {"binding": n, "resource": {"buffer": buffer, "offset": start, "size": size}}
            for n, (buffer, start, size) in enumerate(given)
        ]
        with errors_said(self._device):
            group = self._device.handle.create_bind_group(layout=form.layout, entries=entries)
        return form.pipeline, group

    def spans(self, dispatch: Dispatch) -> list[int]:
        """Return the bytes of each memref of a dispatch."""
        counts = element_counts(self.text.shapes, self.text.slots, dispatch.words)
        return [n * size for n, size in zip(counts, self.text.element_bytes, strict=True)]

    def words(self, dispatch: Dispatch, offsets: Sequence[int]) -> Array:
        """Return what the kernel is told of a dispatch: [n] i32, n a multiple of 4.

        `offsets` are the bytes between what is bound and where each memref begins. InputError
        for a number beyond 32 bits.
        """
        numbers = [0, *dispatch.grid]
        given = iter(dispatch.words)
        for slots, offset, size in zip(
            self.text.slots, offsets, self.text.element_bytes, strict=True
        ):
            numbers += [offset // size, *(next(given) for _ in range(slots))]
        numbers += given
        counts = element_counts(self.text.shapes, self.text.slots, dispatch.words)
        check_numbers(self.text.name, (*numbers, *counts, prod(dispatch.grid)))
        return np.array(numbers + [0] * (-len(numbers) % 4), np.int32)


def compile_kernels(
    device: Device, texts: Sequence[KernelText], *, subgroups: bool
) -> list[CompiledKernel]:
    """Return the kernels on a device; `subgroups` says whether shuffles may use subgroups.

    Raises TargetUnavailable naming a kernel that asks for more than the device has.
    """
    kernels: list[CompiledKernel] = []
    for number, text in enumerate(texts):
        _check_fits(device, text)
        kernels.append(CompiledKernel(device, text, subgroups=subgroups))
        report("compiling kernels", number + 1, len(texts))
    return kernels


def _entries(text: KernelText, windows: Sequence[int]) -> list[dict[str, Any]]:
    kinds = ["uniform"]
    for reads, count in zip(text.reads, windows, strict=True):
        kinds += ["read-only-storage" if reads else "storage"] * count
    kinds += ["storage"] * text.checks
    return [
        {"binding": n, "visibility": _COMPUTE, "buffer": {"type": kind}}
        for n, kind in enumerate(kinds)
    ]


def _check_fits(device: Device, text: KernelText) -> None:
    limits, windows = device.limits, text.windows(device.window)
    needs = (
        ("threads a block", text.threads, "max-compute-invocations-per-workgroup"),
        ("bytes a block", text.workgroup_bytes, "max-compute-workgroup-storage-size"),
        (
            f"buffers of at most {device.window} bytes",
            sum(windows) + text.checks,
            "max-storage-buffers-per-shader-stage",
        ),
    )
    check_fits(text.name, device.name, [(what, n, limits[limit]) for what, n, limit in needs])


def folded(grid: tuple[int, int, int], most: int) -> tuple[int, int, int]:
    """Return a grid of at least as many blocks, with at most `most` in a dimension."""
    x, y, z = grid
    total = x * y * z
    if total <= most:
        return total, 1, 1
    rows = -(-total // most)
    if rows <= most:
        return most, rows, 1
    return most, most, -(-rows // most)
