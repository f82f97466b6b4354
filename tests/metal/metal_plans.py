"""Small plans as artifacts of metal, and on an imitated device."""

from functools import cache
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from lamina.dialects.text import read_module
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.plugins import manager
from lamina.targets.base import Artifact
from lamina.targets.metal.device import Device
from lamina.targets.metal.executable import MetalExecutable
from lamina.targets.metal.loading import load_artifact
from lamina.targets.metal.target import MetalTarget
from lamina.testing.msl.device import Metal

PLANS = Path(__file__).parents[1] / "cpu" / "plans"
WEIGHTS = {"w": np.arange(1000, dtype=np.float32)}


def planned(name: str) -> ModuleOp:
    return read_module(manager.context(), PLANS / f"{name}.mlir")


@cache
def artifact(name: str) -> Artifact:
    module, context = planned(name), manager.context()
    for each in (ChooseLayoutsPass(64), LowerTilesPass(64, 32)):
        each.apply(context, module)
    return MetalTarget().emit(context, module)


def load_plan(name: str, metal: Metal | None = None) -> MetalExecutable:
    return load_artifact(artifact(name), WEIGHTS, Device(metal or Metal()))
