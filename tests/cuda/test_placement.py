"""What is for the host, run there beside an interpreted device, and copied in between."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from fake_cuda import FakeCudaTarget
from placed import WEIGHTED, WEIGHTS, numbers, placed, right, scaled
from xdsl.passes import ModulePass

import lamina
from lamina.passes.choose_places import ChoosePlacesPass
from lamina.passes.outline_groups import OutlineGroupsPass

pytestmark = pytest.mark.filterwarnings("ignore:.*by its NumPy meaning")


@dataclass(frozen=True)
class WithoutDoubles(FakeCudaTarget):
    """CUDA on a device that has no 64-bit floats."""

    name: ClassVar[str] = "cuda"

    def passes(self) -> tuple[ModulePass, ...]:
        passes = super().passes()
        after = 1 + passes.index(OutlineGroupsPass())
        return (*passes[:after], ChoosePlacesPass(("f64",)), *passes[after:])


def test_a_group_of_64_bit_floats_runs_on_the_host_between_kernels() -> None:
    target = WithoutDoubles()
    exe = lamina.compile(placed(), target=target)
    for rows in (5, 0, 33, 5, 5):
        x = numbers(rows)
        np.testing.assert_array_equal(exe(x)["y"], right(x))


def test_graphs_stand_before_and_after_what_the_host_does() -> None:
    target, x = WithoutDoubles(), numbers(5)
    exe = lamina.compile(placed(), target=target)
    for _ in range(2):
        exe(x)
    before = Counter(target.driver.counts)
    exe(x)
    assert (target.driver.counts - before)["cuGraphLaunch"] == 2


def test_weights_of_what_runs_on_the_host_stay_there() -> None:
    exe = lamina.compile(placed(WEIGHTED), target=WithoutDoubles(), weights=WEIGHTS)
    assert (len(exe.kept), len(exe.packed)) == (1, 0)
    for rows in (5, 0, 33):
        np.testing.assert_array_equal(exe(numbers(rows))["y"], scaled(numbers(rows)))
