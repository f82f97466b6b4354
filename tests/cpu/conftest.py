"""Planned modules written by hand, compiled once for all tests."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lamina.dialects.text import read_module
from lamina.plugins import manager
from lamina.targets.base import Artifact, Executable
from lamina.targets.cpu.executable import CpuExecutable
from lamina.targets.cpu.loading import load_artifact
from lamina.targets.cpu.target import CpuTarget
from lamina.targets.reference.target import ReferenceTarget

PLANS = Path(__file__).parent / "plans"
WEIGHTS = {"w": np.arange(1000, dtype=np.float32)}


@cache
def _artifact(name: str) -> Artifact:
    context = manager.context()
    return CpuTarget().emit(context, read_module(context, PLANS / f"{name}.mlir"))


@pytest.fixture(scope="session")
def artifact() -> Callable[[str], Artifact]:
    """Return what a plan compiles to."""
    return _artifact


@pytest.fixture(scope="session")
def load() -> Callable[[str, int], CpuExecutable]:
    """Load a plan for a number of threads, however many CPUs there are."""

    @cache
    def load(name: str, threads: int = 2) -> CpuExecutable:
        return load_artifact(_artifact(name), WEIGHTS, lambda: threads)

    return load


@pytest.fixture(scope="session")
def interpret() -> Callable[[str], Executable]:
    """Load a plan on the reference."""

    @cache
    def interpret(name: str) -> Executable:
        context, target = manager.context(), ReferenceTarget()
        module = read_module(context, PLANS / f"{name}.mlir")
        return target.load(target.emit(context, module), WEIGHTS)

    return interpret
