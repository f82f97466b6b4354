"""What metal has no elements for, run on the host beside an imitated device."""

import numpy as np
import pytest
from imitation import ImitatedTarget
from placed import WEIGHTED, WEIGHTS, numbers, placed, right, scaled

import lamina

pytestmark = pytest.mark.filterwarnings("ignore:.*by its NumPy meaning")


def test_a_group_of_64_bit_floats_runs_on_the_host_between_kernels(compiler) -> None:
    exe = lamina.compile(placed(), target=ImitatedTarget())
    for rows in (5, 0, 33, 5):
        x = numbers(rows)
        np.testing.assert_array_equal(exe(x)["y"], right(x))


def test_weights_of_what_runs_on_the_host_stay_there(compiler) -> None:
    exe = lamina.compile(placed(WEIGHTED), target=ImitatedTarget(), weights=WEIGHTS)
    assert (len(exe.kept), len(exe.packed)) == (1, 0)
    for rows in (5, 0, 33):
        np.testing.assert_array_equal(exe(numbers(rows))["y"], scaled(numbers(rows)))
