"""What a residual network of 50 layers becomes: few kernels, and little memory."""

from pathlib import Path
from typing import Any

import onnx
import pytest

import lamina
from lamina.targets.plans.dispatches import dispatches_of

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
MB = 1e6


@pytest.fixture(scope="module")
def plan() -> Any:
    return lamina.compile(lamina.read(LIGHT), "cpu", threads=2).plan  # pyright: ignore


def test_its_layers_share_kernels(plan: Any) -> None:
    assert len(plan.kernels) <= 25


def test_its_results_share_memory(plan: Any) -> None:
    arena = dispatches_of(plan, {}, workers=2).arena
    assert arena <= 8 * MB
    assert arena + 2 * plan.scratch <= 16 * MB
