"""Small plans as artifacts of webgpu, and as the reference runs them."""

from functools import cache
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from lamina.dialects.text import read_module
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.plugins import manager
from lamina.targets.base import Artifact, Executable
from lamina.targets.reference.target import ReferenceTarget
from lamina.targets.webgpu.target import WebGpuTarget

PLANS = Path(__file__).parents[1] / "cpu" / "plans"
WEIGHTS = {"w": np.arange(1000, dtype=np.float32)}


def planned(name: str) -> ModuleOp:
    return read_module(manager.context(), PLANS / f"{name}.mlir")


@cache
def artifact(name: str) -> Artifact:
    module, context = planned(name), manager.context()
    for each in (ChooseLayoutsPass(64), LowerTilesPass(64, 8)):
        each.apply(context, module)
    return WebGpuTarget().emit(context, module)


def reference(name: str) -> Executable:
    target, context = ReferenceTarget(), manager.context()
    return target.load(target.emit(context, planned(name)), WEIGHTS)


def row(size: int) -> np.ndarray:
    return np.arange(1, size + 1, dtype=np.float32)
