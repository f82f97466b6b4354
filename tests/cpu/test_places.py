"""Places that a tensor names and that are not there: an error of the call, in whichever thread."""

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i64

import lamina
from lamina.dialects import nn
from lamina.errors import InputError
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weights
from lamina.targets.base import Executable

ROWS = 4096


@pytest.fixture(scope="module")
def executable() -> Executable:
    graph = Graph(Weights([], "the test"))
    x, at = graph.input("x", f32, [7, ROWS]), graph.input("at", i64, [7, ROWS])
    with graph.at("/taken"):
        taken = graph.add(nn.GatherElementsOp(x, at, 0))
    with graph.at("/put"):
        graph.output("y", graph.add(nn.ScatterElementsOp(x, at, taken, 0, "add")))
    return lamina.compile(graph.finish(), "cpu{threads=2}", weights={})


@pytest.mark.parametrize("column", [0, ROWS - 1])
@pytest.mark.parametrize("wrong", [-1, 7, 1 << 62])
def test_a_place_that_is_not_there_is_an_error_of_the_call(
    executable: Executable, column: int, wrong: int
) -> None:
    x, at = np.ones((7, ROWS), np.float32), np.zeros((7, ROWS), np.int64)
    at[3, column] = wrong
    with pytest.raises(InputError, match="/taken"):
        executable(x, at)


def test_a_call_after_one_with_an_error_is_right(executable: Executable) -> None:
    x, at = np.ones((7, ROWS), np.float32), np.zeros((7, ROWS), np.int64)
    with pytest.raises(InputError):
        executable(x, at + 7)
    y = executable(x, at)["y"]
    np.testing.assert_array_equal(y[0], np.full(ROWS, 8))
    np.testing.assert_array_equal(y[1:], x[1:])
