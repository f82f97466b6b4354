"""Runs one simt kernel on the adapter, as the reference's `run_simt_kernel` does here."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lamina.dialects.simt import KernelOp
from lamina.errors import InputError
from lamina.targets.plans.dispatches import Dispatch
from lamina.targets.plans.layouts import layout
from lamina.targets.reference.kernel import grid_of
from lamina.targets.webgpu.compiled_kernels import compile_kernels, folded
from lamina.targets.webgpu.device import Device
from lamina.targets.webgpu.printer import NodeTable
from lamina.targets.webgpu.wgsl import emit_kernel
from lamina.targets.webgpu.windows import Window, bound

Array = np.ndarray[Any, np.dtype[Any]]


def run_on(
    device: Device,
    kernel: KernelOp,
    memrefs: Sequence[Array],
    symbols: Mapping[str, int],
    workers: int = 2,
    *,
    subgroups: bool = True,
    most_blocks: int = 65535,
    reads: Sequence[bool] = (),
) -> None:
    """Run every block of the grid; `memrefs` are changed in place but for those in `reads`."""
    nodes, values = NodeTable(), {**symbols, "workers": workers}
    text = emit_kernel(kernel, reads or [False] * len(memrefs), nodes)
    (compiled,) = compile_kernels(device, [text], subgroups=subgroups)
    x, y, z = (*grid_of(kernel, values), 1, 1)[:3]
    if 0 in (x, y, z):
        return
    words = [n for each in map(_words, kernel.memrefs, memrefs) for n in each]
    words += [values[symbol.data] for symbol in kernel.symbols]
    dispatch = Dispatch(0, (x, y, z), tuple((n, 0) for n in range(len(memrefs))), tuple(words))
    failed = device.storage(4)
    device.write(failed, np.zeros(1, np.uint32))
    buffers = [device.storage(array.nbytes) for array in memrefs]
    for buffer, array in zip(buffers, memrefs, strict=True):
        device.write(buffer, array)
    found = [
        bound(storage, 0, span, device.window, device.alignment)
        for storage, span in zip(buffers, compiled.spans(dispatch), strict=True)
    ]
    table = compiled.words(dispatch, [each.before for each in found])
    told = Window(device.uniform(table), 0, table.nbytes)
    pipeline, group = compiled.bind(told, found, failed)
    encoder = device.handle.create_command_encoder()
    commands = encoder.begin_compute_pass()
    commands.set_pipeline(pipeline)
    commands.set_bind_group(0, group)
    commands.dispatch_workgroups(*folded((x, y, z), most_blocks))
    commands.end()
    device.handle.queue.submit([encoder.finish()])
    for buffer, array in zip(buffers, memrefs, strict=True):
        array[...] = device.read(buffer, 0, array.nbytes).view(array.dtype).reshape(array.shape)
    if number := int(device.read(failed, 0, 4).view(np.uint32)[0]):
        raise InputError(nodes.names[number - 1])


def _words(value: Any, array: Array) -> list[int]:
    shape = layout(value.type)
    sizes = [n for n, fixed in zip(array.shape, shape.extents, strict=True) if fixed is None]
    for n, fixed in enumerate(shape.strides or ()):
        sizes += [array.strides[n] // array.itemsize] if fixed is None else []
    return sizes
