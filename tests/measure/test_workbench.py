"""A model with one schedule after another computes the same bits."""

from collections.abc import Callable

import ggml_blocks
import numpy as np
import pytest
from xdsl.dialects.builtin import f32

from lamina.errors import InputError, UnsupportedError
from lamina.frontend.graph import Graph
from lamina.frontend.model import Model, Weight, Weights
from lamina.measure.tuning import Tuning
from lamina.measure.workbench import Workbench
from lamina.passes.schedules.neighbours import all_neighbours

ROWS, COLUMNS, DEPTH = 13, 96, 64


def floats(rng: np.random.Generator) -> Weight:
    return Weight.of("w", rng.standard_normal((COLUMNS, DEPTH)).astype(np.float32))


def blocks(rng: np.random.Generator) -> Weight:
    return Weight(
        "w", "q4_1", (COLUMNS, DEPTH), ggml_blocks.random_rows("q4_1", COLUMNS, DEPTH, rng)
    )


def product(weight: Callable[[np.random.Generator], Weight]) -> Model:
    """One product of rows with a weight."""
    weights = Weights([weight(np.random.default_rng(0))])
    graph = Graph(weights)
    x = graph.input("x", f32, ["T", DEPTH])
    graph.output("y", graph.linear(x, graph.parameter("w", (COLUMNS, DEPTH))))
    return Model(graph.finish(), weights)


@pytest.mark.parametrize("weight", [floats, blocks])
@pytest.mark.parametrize("rows", [1, ROWS])
def test_no_schedule_changes_a_bit(
    weight: Callable[[np.random.Generator], Weight], rows: int
) -> None:
    bench = Workbench(product(weight), "cpu", 1)
    x = np.random.default_rng(1).standard_normal((rows, DEPTH)).astype(np.float32)
    expected = bench.build().executable(x)["y"]
    (found,) = (each for each in bench.scheduled() if each.few == (rows == 1))
    for numbers in all_neighbours(found):
        y = bench.build({found.key: numbers}).executable(x)["y"]
        np.testing.assert_array_equal(y, expected, str(numbers), strict=True)


def test_a_row_is_the_same_alone_and_among_others() -> None:
    exe = Workbench(product(blocks), "cpu", 1).build().executable
    x = np.random.default_rng(1).standard_normal((ROWS, DEPTH)).astype(np.float32)
    np.testing.assert_array_equal(exe(x)["y"][5:6], exe(x[5:6])["y"], strict=True)


def test_a_target_without_schedules_has_nothing_to_tune() -> None:
    with pytest.raises(UnsupportedError, match="reference has no pass schedule-groups"):
        Workbench(product(floats), "reference")


def test_classes_are_chosen_by_text_or_by_the_name_of_a_kernel() -> None:
    bench = Workbench(product(floats), "cpu")
    few, many = Tuning(bench).findings.values()
    assert [*Tuning(bench, "*few*").findings] == [few.key]
    assert [*Tuning(bench, many.kernels[0]).findings] == [many.key]
    with pytest.raises(InputError, match="is called 'nothing'"):
        Tuning(bench, "nothing")
