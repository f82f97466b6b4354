"""Kernels on a CUDA device beside what they mean: the zoo, those of models, the conformance kit."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gpu_device import Array, DeviceKernel, flat, thread_passes, threaded
from gpu_setting import Record, Records, Setting, difference

import lamina
from lamina import compiler
from lamina.dialects import tile
from lamina.dialects.plan import CallOp
from lamina.dialects.simt import KernelOp
from lamina.errors import InputError, LaminaError, TargetUnavailable
from lamina.frontend import llama
from lamina.frontend.rope import Rope
from lamina.targets.cuda.target import CudaTarget
from lamina.targets.reference.executable import ReferenceExecutable
from lamina.targets.reference.interpreter import Interpreter
from lamina.targets.reference.kernel import grid_of, run_programs
from lamina.targets.reference.plan import launched
from lamina.testing import Case, cases
from lamina.testing.kernels import ZOO
from lamina.testing.sheet import Arrays, Sheet
from lamina.testing.suites import models
from lamina.testing.verdict import judge, results
from lamina.testing.zoo.case import ZooCase

GOLDEN = "golden"
SMALLEST = "embedding"
"""The program of the zoo that is run under the sanitizer."""
TOOLS = ("memcheck", "racecheck")
FLOATS, HALVES = 2e-4, 4e-3
"""How far a kernel may be off, as a part of its largest number: f32, and floats of 16 bits."""

TINY = ("llama", "gpt2", "llama-of-blocks")
"""Models of the kit whose kernels are looked at one by one."""
WIDER = replace(
    models.LLAMA,
    vocab_size=256,
    hidden_size=192,
    intermediate_size=512,
    layers=1,
    heads=3,
    kv_heads=1,
    head_dim=64,
    rope=Rope(10000.0, 64, "half_split"),
)
"""A layer of a small decoder, its heads as wide as they are, a third of them."""


def zoo(setting: Setting) -> Records:
    """Run the programs of the zoo, and keep what they gave."""
    (setting.folder / GOLDEN).mkdir(parents=True, exist_ok=True)
    for case in setting.each(ZOO if not setting.dry else ZOO[-3:]):
        yield zoo_record(setting, case)


def kernels(setting: Setting) -> Records:
    """Run the kernels of tiny models one by one, and the models, and keep what those gave."""
    (setting.folder / GOLDEN).mkdir(parents=True, exist_ok=True)
    tiny = [case for case in cases("models") if case.name in TINY]
    chosen = [replace(case, sizes=case.sizes[2 : setting.size(4, 3)]) for case in tiny]
    chosen = chosen[:1] if setting.dry else [*chosen, Case("wider", _wider, (20, 1))]
    for case in setting.each(chosen):
        yield from _of_model(setting, case)


def _wider(sheet: Sheet) -> None:
    weights = models.Invented("q4_0")
    sheet.adopt(llama.build(WIDER, weights), weights)
    sheet.declare("logits", of="model", atol=models.QUANTISED_LOGITS)
    sheet.calls = lambda rng, size: models.conversation(rng, size)[:2]


def zoo_record(setting: Setting, case: ZooCase) -> Record:
    """Run a program of the zoo at its sizes, and keep inputs and results."""
    kernel = threaded(case.path.read_text(encoding="utf-8"))
    on_device = DeviceKernel(setting.device, kernel, CudaTarget.arch)
    worst, kept, refused = 0.0, dict[str, Array](), False
    for size in case.sizes if not setting.dry else case.sizes[-1:]:
        made = case.make(np.random.default_rng(size), size)
        memrefs = [np.ascontiguousarray(each) for each in made.memrefs]
        kept |= {f"{size}.in.{n}": each.copy() for n, each in enumerate(memrefs)}
        values = {**made.symbols, "workers": 2}
        try:
            on_device.run(memrefs, values, grid_of(kernel, values))
        except InputError as error:
            if not case.error or case.error not in str(error):
                return {"name": f"zoo: {case.name}", "ok": False, "why": str(error)}
            refused = True
        kept |= {f"{size}.out.{n}": memrefs[n] for n in made.expected}
        found = (difference(memrefs[n], each) for n, each in made.expected.items())
        worst = max(worst, *found, 0.0)
    np.savez_compressed(setting.folder / GOLDEN / f"{case.name}.npz", **kept)
    ok = worst <= case.tolerance and refused == bool(case.error)
    return {"name": f"zoo: {case.name}", "ok": ok, "worst": worst}


def _of_model(setting: Setting, case: Case) -> Records:
    """Run a model by the meanings of its kernels, and each kernel on the device beside them."""
    target, sheet = setting.target(), case.sheet()
    passes = target.passes()
    first = passes.index(thread_passes(passes)[0])
    tiled = compiler.lower(sheet.module, target, list(passes[:first]))
    lowered = compiler.lower(tiled, target, list(passes[first:]))
    own = {op.sym_name.data: op for op in lowered.ops if isinstance(op, KernelOp)}
    loaded: dict[str, DeviceKernel] = {}
    worst: dict[str, float] = {}

    def call(run: Interpreter, op: CallOp, buffers: tuple[Array, ...]) -> tuple[()]:
        kernel, values, grid = launched(run, op)
        assert isinstance(kernel, tile.KernelOp)
        name = kernel.sym_name.data
        values = {**run.extents, **values}
        if name not in loaded:
            loaded[name] = DeviceKernel(setting.device, own[name], CudaTarget.arch)
        ours = [_twin(buffer) for buffer in buffers]
        try:
            loaded[name].run(ours, values, grid)
        except TargetUnavailable as error:
            raise TargetUnavailable(f"kernel {name}: {error}") from None
        run_programs(run, kernel, buffers, values, np.ndindex(*grid))
        pairs = zip(ours, buffers, kernel.access.data, strict=True)
        found = [_off(a, b) for a, b, access in pairs if access.data != "read"]
        worst[name] = max(worst.get(name, 0.0), *found)
        return ()

    meant = ReferenceExecutable(tiled, sheet.weights, {CallOp: call})
    expected = [results(meant, case.calls(sheet, size)) for size in case.sizes]
    for name, off in worst.items():
        yield {"name": f"{case.name}: {name}", "ok": off <= 1, "of_tolerance": off}
    yield _whole(setting, case, sheet, expected)


def _whole(
    setting: Setting, case: Case, sheet: Sheet, expected: Sequence[Sequence[Arrays]]
) -> Record:
    """Run a model from end to end on the device, and keep what it takes and gives."""
    executable = lamina.compile(sheet.module, setting.target(), weights=sheet.weights)
    (check,) = sheet.checks
    worst, kept = 0.0, dict[str, Array]()
    for size, meant in zip(case.sizes, expected, strict=True):
        calls = case.calls(sheet, size)
        found = results(executable, calls)
        for n, (given, ours, theirs) in enumerate(zip(calls, found, meant, strict=True)):
            kept |= {f"{size}.{n}.in.{name}": array for name, array in given.items()}
            kept[f"{size}.{n}.out.{check.name}"] = ours[check.name]
            off = np.abs(ours[check.name] - theirs[check.name]).max(initial=0)
            worst = max(worst, float(np.nan_to_num(off, nan=np.inf)))
    np.savez_compressed(setting.folder / GOLDEN / f"{case.name}.npz", **kept)
    return {"name": f"{case.name}: all of it", "ok": worst <= check.atol, "worst": worst}


def _twin(array: Array) -> Array:
    """Return a copy of an array, laid out as it is."""
    return np.lib.stride_tricks.as_strided(flat(array), array.shape, array.strides)


def _off(found: Array, expected: Array) -> float:
    """Return how far numbers are off, as a part of what they may be off."""
    if expected.dtype.kind in "iub" and expected.dtype.itemsize == 1:
        # A number in the middle of two quants may become either.
        far = np.abs(found.astype(np.int64) - expected.astype(np.int64)).max(initial=0)
        return float(far)
    tolerance = FLOATS if expected.dtype == np.float32 else HALVES
    return difference(found, expected) / tolerance


def kit(setting: Setting) -> Records:
    """Judge the conformance kit, as much of it as there is time for."""
    target = setting.target()
    chosen = list(cases())
    if setting.dry:
        chosen = [replace(case, sizes=(3,)) for case in chosen if case.name == "softmax"]
    passed = begun = 0
    for case in setting.each(chosen):
        begun += 1
        try:
            verdicts = judge(target, case).verdicts
        except TargetUnavailable:
            raise
        except LaminaError as error:
            yield {"name": case.name, "ok": False, "why": str(error)}
            continue
        passed += sum(each.passed for each in verdicts)
        for each in verdicts:
            if not each.passed:
                yield {"name": each.name, "ok": False, "why": each.failed or each.refused}
    yield {"name": "the kit", "of_cases": len(chosen), "begun": begun, "passed_checks": passed}


def sanitizer(setting: Setting) -> Records:
    """Run the smallest program of the zoo under compute-sanitizer, where it is installed."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        yield {"name": "compute-sanitizer", "found": False}
        return
    script = Path(__file__).with_name("gpu_check.py")
    for each in TOOLS:
        inner = [sys.executable, script, "--stage", "smallest", "--output", setting.folder]
        command: Sequence[Any] = [tool, "--tool", each, "--error-exitcode", "9", *inner]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        yield {"name": each, "ok": done.returncode == 0, "said": done.stdout[-400:]}


def smallest(setting: Setting) -> Records:
    """Run the smallest program of the zoo."""
    (case,) = (case for case in ZOO if case.name == SMALLEST)
    (setting.folder / GOLDEN).mkdir(parents=True, exist_ok=True)
    yield zoo_record(setting, case)
