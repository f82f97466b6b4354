"""Products and operations on rows on a CUDA device, beside torch and its limits."""

from collections.abc import Callable
from itertools import product as product_of
from statistics import median
from time import perf_counter
from typing import Any

import ml_dtypes
import numpy as np
import rows as row_ops
from gpu_device import LEAST, ResidentStep
from gpu_setting import Record, Records, Setting, difference
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i8
from xdsl.ir import Attribute

import lamina
from lamina.dialects import nn
from lamina.errors import InputError, LoweringError
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weight, Weights
from lamina.targets.cuda.executable import CudaExecutable

TF32 = "tf32"
"""What products of f32 are called that matrix units make, of 10 bits of fraction."""

TORCH_DTYPES = {
    **{"f32": "float32", TF32: "float32", "f16": "float16", "bf16": "bfloat16"},
    "i8": "int8",
}
KINDS: dict[str, tuple[Attribute, Any, float]] = {
    "bf16": (bf16, ml_dtypes.bfloat16, 1e-5),
    "f16": (f16, np.float16, 1e-5),
    "f32": (f32, np.float32, 1e-5),
    TF32: (f32, np.float32, 2e-3),
    "i8": (i8, np.int8, 0.0),
}
"""Element types: ours, NumPy's, and how far a sum may be off."""

BARS = {
    (kind, arch): bar
    for kind in ("bf16", "f16")
    for arch, bar in (("sm_80", 0.45), ("sm_90a", 0.65))
}
"""What share of torch's rate a product should have at least, by element type and architecture."""

SIDE, CHECKED = 4096, 8
ROWS, WIDTH, HEAD = 16384, 4096, 128


def torch_module() -> Any:
    """Return torch where it is installed with CUDA, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def torch_seconds(torch: Any, work: Callable[[], Any]) -> float:
    """Return the median seconds of work that is given to torch's stream."""
    work()
    began = perf_counter()
    work()
    torch.cuda.synchronize()
    times = 1 + int(LEAST / max(perf_counter() - began, 1e-7))
    spans: list[float] = []
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            work()
        end.record()
        torch.cuda.synchronize()
        spans.append(begin.elapsed_time(end) * 1e-3 / times)
    return median(spans)


def compiled(
    setting: Setting, module: ModuleOp, weights: Weights, arch: str, *, tf32: bool = False
) -> CudaExecutable:
    """Compile and load a module."""
    found = lamina.compile(module, setting.target(arch, tf32=tf32), weights=weights)
    assert isinstance(found, CudaExecutable)
    return found


def product(kind: str, side: int) -> ModuleOp:
    """Return x w of square matrices, the sums of 16-bit floats in f32."""
    own = KINDS[kind][0]
    graph = Graph(Weights(()))
    x, w = (graph.input(name, own, [side, side]) for name in "xw")
    # Rows of w are what is summed over, but for bytes, which units have side by side.
    op = nn.DotGeneralOp(x, w, [(1, 1 if kind == "i8" else 0)])
    graph.output("y", graph.add(op))
    return graph.finish()


def products(setting: Setting) -> Records:
    """Multiply square matrices of each element type."""
    side, torch = setting.size(SIDE, 64), torch_module()
    for kind, arch in setting.each(product_of(KINDS, setting.architectures)):
        theirs = _torch_product(torch, kind, side) if torch and kind in TORCH_DTYPES else None
        try:
            yield _product(setting, kind, side, arch, theirs)
        except (InputError, LoweringError) as error:
            yield {"name": f"{kind} {side}^3, {arch}", "ok": False, "why": str(error)}


def _product(setting: Setting, kind: str, side: int, arch: str, theirs: float | None) -> Record:
    _, dtype, tolerance = KINDS[kind]
    rng = np.random.default_rng(0)
    if kind == "i8":
        x, w = (rng.integers(-128, 128, (side, side), np.int8) for _ in range(2))
    else:
        x, w = (rng.standard_normal((side, side), np.float32).astype(dtype) for _ in range(2))
    executable = compiled(setting, product(kind, side), Weights(()), arch, tf32=kind == TF32)
    step = ResidentStep(executable, {"x": x, "w": w})
    seconds = setting.clock.seconds(step.give)
    wide = np.int64 if kind == "i8" else np.float64
    some = rng.permutation(side)[:CHECKED]
    right = w.astype(wide).T if kind == "i8" else w.astype(wide)
    off = difference(step.outputs()["y"][some], x[some].astype(wide) @ right)
    share, bar = theirs and theirs / seconds, BARS.get((kind, arch))
    judged = {} if bar is None else {"bar": bar, "met": None if share is None else share >= bar}
    return {
        "name": f"{kind} {side}^3, {arch}",
        "ok": off <= tolerance,
        "worst": off,
        "tera_per_s": 2 * side**3 / seconds / 1e12,
        "torch_tera_per_s": theirs and 2 * side**3 / theirs / 1e12,
        "of_torch": share,
        **judged,
    }


def _torch_product(torch: Any, kind: str, side: int) -> float:
    torch.backends.cuda.matmul.allow_tf32 = kind == TF32
    if kind == "i8":
        x, w = (torch.randint(-128, 128, (side, side), device="cuda").to(torch.int8) for _ in "xw")
        return torch_seconds(torch, lambda: torch._int_mm(x, w.t()))
    x, w = (
        torch.randn(side, side, device="cuda").to(getattr(torch, TORCH_DTYPES[kind]))
        for _ in range(2)
    )
    return torch_seconds(torch, lambda: x @ w)


def on_rows(setting: Setting) -> Records:
    """Make operations on rows, as much as fills the memory's way and not the caches."""
    rows, width, head = (setting.size(*each) for each in ((ROWS, 3), (WIDTH, 64), (HEAD, 64)))
    torch = torch_module()
    scale, shift = np.ones(width, np.float32), np.zeros(width, np.float32)
    weights = Weights([Weight.of("scale", scale), Weight.of("shift", shift)])
    for op in setting.each(row_ops.OPS if not setting.dry else ("softmax", "silu")):
        module = row_ops.module(op, weights, width, head)
        step = ResidentStep(
            compiled(setting, module, weights, "sm_80"), row_ops.inputs(op, rows, width, head)
        )
        seconds = setting.clock.seconds(step.give)
        rate = 2 * 4 * rows * width / seconds
        theirs = _torch_rows(torch, op, rows, width) if torch else None
        yield {
            "name": f"{op} {rows}x{width}",
            "ok": bool(np.isfinite(step.outputs()["y"]).all()),
            "gb_per_s": rate / 1e9,
            "of_copy": setting.share(rate, "copy"),
            "of_torch": theirs and theirs / seconds,
        }


def _torch_rows(torch: Any, op: str, rows: int, width: int) -> float | None:
    f, x = torch.nn.functional, torch.randn(rows, width, device="cuda")
    known = {
        "softmax": lambda: f.softmax(x, 1),
        "layer_norm": lambda: f.layer_norm(x, (width,)),
        "gelu": lambda: f.gelu(x),
        "gelu_tanh": lambda: f.gelu(x, approximate="tanh"),
        "silu": lambda: f.silu(x),
    }
    return torch_seconds(torch, known[op]) if op in known else None
