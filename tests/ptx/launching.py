"""Launch kernels on arrays, and build small ones around a few instructions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lamina.testing.ptx import Device, Specification

HEAD = ".version 8.7\n.target {target}\n.address_size 64\n"


def launch(
    text: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    *args: Any,
    shared: int = 0,
    kernel: str | None = None,
    capability: tuple[int, int] = (8, 0),
    device: Device | None = None,
) -> list[np.ndarray]:
    """Run the kernel of a module; arrays are copied to the device and back, and returned."""
    device = device or Device(Specification(capability))
    loaded = device.load(text)
    entry = loaded.kernel(kernel or loaded.names[0])
    entry.shared_limit = device.specification.shared_limit
    passed: list[Any] = []
    for number, arg in enumerate(args):
        passed.append(device.put(arg, f"argument {number}") if isinstance(arg, np.ndarray) else arg)
    shape = (grid,) if isinstance(grid, int) else grid
    threads = (block,) if isinstance(block, int) else block
    device.launch(entry, shape, threads, passed, shared)
    arrays = [(at, a) for at, a in zip(passed, args, strict=True) if isinstance(a, np.ndarray)]
    return [device.get(at, array.dtype, array.shape) for at, array in arrays]


def entry(body: str, params: int = 1, *, before: str = "", target: str = "sm_80") -> str:
    """Return a module with one kernel `k`, whose pointers are in %rd0, %rd1, …; %r0 is %tid.x."""
    names = ", ".join(f".param .u64 p{n}" for n in range(params))
    loads = "\n".join(f"ld.param.u64 %rd{n}, [p{n}];" for n in range(params))
    return f"""{HEAD.format(target=target)}{before}
.visible .entry k({names})
{{
.reg .pred %p<16>; .reg .b16 %h<32>; .reg .b32 %r<64>; .reg .f32 %f<32>;
.reg .b64 %rd<32>; .reg .f64 %d<16>;
{loads}
mov.u32 %r0, %tid.x;
{body}
ret;
}}
"""


def compute(body: str, result: Any, *inputs: np.ndarray, target: str = "sm_80") -> np.ndarray:
    """Return what instructions make of arrays: %a, %b, %c are elements, %y is the result.

    Registers are as wide as the elements, at least 16 bits; %x0 … %x9 are spare 32-bit ones.
    """
    out = np.zeros(len(inputs[0]), result)
    letters = "abc"[: len(inputs)]
    lines = [
        f".reg .b{max(16, 8 * a.itemsize)} %{x};"
        for x, a in zip("y" + letters, (out, *inputs), strict=True)
    ]
    for number, (letter, array) in enumerate(zip(letters, inputs, strict=True)):
        lines += [
            f"mad.wide.u32 %rd10, %r0, {array.itemsize}, %rd{number};",
            f"ld.global.b{8 * array.itemsize} %{letter}, [%rd10];",
        ]
    lines += [
        ".reg .b32 %x<10>;",
        body,
        f"mad.wide.u32 %rd10, %r0, {out.itemsize}, %rd{len(inputs)};",
        f"st.global.b{8 * out.itemsize} [%rd10], %y;",
    ]
    text = entry("\n".join(lines), len(inputs) + 1, target=target)
    capability = (9, 0) if target == "sm_90" else (8, 9)
    return launch(text, 1, len(out), *inputs, out, capability=capability)[-1]
