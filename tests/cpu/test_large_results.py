"""Results that no cache keeps are stored past it: the bits are those of a small batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

import lamina
from lamina.dialects import nn
from lamina.testing.sheet import Sheet
from lamina.testing.values import normal

ROWS, COLUMNS = 2049, 4096
"""A little more than 32 MiB."""

BUILDS: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: nn.SoftmaxOp(x, 1),
    "silu": nn.SiluOp,
    "gelu": nn.GeluOp,
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_a_row_is_the_same_in_a_large_batch(build: Callable[[Any], Any], threads: int) -> None:
    sheet = Sheet()
    sheet.compute("y", build(sheet.given("x", f32, ["M", COLUMNS], normal)))
    run = lamina.compile(sheet.module, "cpu", threads=threads, weights={})
    x = np.random.default_rng(3).standard_normal((ROWS, COLUMNS), np.float32)
    y = run(x=x)["y"]
    for start in (0, 1000, ROWS - 3):
        rows = slice(start, start + 3)
        assert run(x=x[rows])["y"].tobytes() == y[rows].tobytes()
