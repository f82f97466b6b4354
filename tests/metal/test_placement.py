"""What metal has no elements for, run on the host beside an imitated device."""

import numpy as np
import pytest
from imitation import ImitatedTarget
from placed import numbers, placed, right

import lamina

pytestmark = pytest.mark.filterwarnings("ignore:.*by its NumPy meaning")


def test_a_group_of_64_bit_floats_runs_on_the_host_between_kernels(compiler) -> None:
    exe = lamina.compile(placed(), target=ImitatedTarget())
    for rows in (5, 0, 33, 5):
        x = numbers(rows)
        np.testing.assert_array_equal(exe(x)["y"], right(x))
