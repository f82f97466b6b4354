"""Kernels on a device: their pipelines, and the commands that dispatches of them are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lamina.progress import report
from lamina.targets.devices.fitting import check_fits, check_numbers, element_counts
from lamina.targets.metal.device import Buffer, Command, Device
from lamina.targets.metal.msl import KernelText, library_text
from lamina.targets.plans.dispatches import Dispatch


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel and its pipeline."""

    text: KernelText
    pipeline: Any

    def command(
        self, dispatch: Dispatch, memrefs: Sequence[tuple[Buffer, int]], failed: Buffer
    ) -> Command:
        """Return a dispatch as a command; `memrefs` say where each begins, in bytes.

        InputError for a number beyond 32 bits.
        """
        counts = element_counts(self.text.shapes, self.text.slots, dispatch.words)
        check_numbers(self.text.name, (*dispatch.words, *dispatch.grid, *counts))
        # An empty array may begin where its buffer ends.
        bound = [
            (n, buffer, offset if offset < buffer.size else 0)
            for n, (buffer, offset) in enumerate(memrefs)
        ]
        words_at = len(bound)
        if self.text.checks:
            bound.append((words_at + (self.text.words > 0), failed, 0))
        words = np.array(dispatch.words, np.int32).tobytes()
        return Command(
            self.pipeline, tuple(bound), words, words_at, dispatch.grid, self.text.threads
        )


def compile_kernels(device: Device, texts: Sequence[KernelText]) -> list[CompiledKernel]:
    """Return kernels on a device, compiled as one library.

    Raises TargetUnavailable naming a kernel that asks for more than the device has.
    """
    if not texts:
        return []
    report("compiling kernels", 0, len(texts))
    pipelines = device.pipelines(library_text(texts), [text.function for text in texts])
    for text, pipeline in zip(texts, pipelines, strict=True):
        _check_fits(device, text, pipeline)
    report("compiling kernels", len(texts), len(texts))
    return [CompiledKernel(*pair) for pair in zip(texts, pipelines, strict=True)]


def _check_fits(device: Device, text: KernelText, pipeline: Any) -> None:
    needs = (
        ("threads a block", text.threads, pipeline.maxTotalThreadsPerThreadgroup()),
        ("bytes a block", text.threadgroup_bytes, device.threadgroup_bytes),
        ("threads a simdgroup", text.subgroup, pipeline.threadExecutionWidth()),
    )
    check_fits(text.name, device.name, needs)
