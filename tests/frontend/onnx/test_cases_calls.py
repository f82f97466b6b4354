"""Faults that other systems had with graphs that were made for some extents: right, or refused."""

import numpy as np
import pytest
from one_node import compiled
from onnx_graphs import declared, graph_of, model_from, of

from lamina.errors import FormatError, InputError

pytestmark = pytest.mark.onnx

X = declared("x", shape=["n", 3])


def of_five(then: list, other: list) -> object:
    """A graph that asks whether there are five rows."""
    nodes = [
        of("Shape", "x", "size", start=0, end=1),
        of("Equal", "size five", "is_five"),
        of(
            "If",
            "is_five",
            "y",
            name="asks",
            then_branch=graph_of(then, [], ["t"]),
            else_branch=graph_of(other, [], ["e"]),
        ),
    ]
    return compiled(model_from(graph_of(nodes, [X], ["y"], {"five": np.array([5])})))


def rows(count: int) -> np.ndarray:
    return np.arange(3 * count, dtype=np.float32).reshape(count, 3)


def test_a_graph_that_asks_for_an_extent_is_right_for_others_too() -> None:
    made = of_five([of("Neg", "x", "t")], [of("Identity", "x", "e")])
    for count in (1, 4, 5, 6):
        (y,) = made(rows(count)).values()
        assert np.array_equal(y, -rows(count) if count == 5 else rows(count))


def test_where_one_extent_is_meant_others_are_refused_by_the_node_that_asks() -> None:
    flat = [of("Reshape", "x all", "t")]
    flat.insert(0, of("Constant", "", "all", value_ints=[-1]))
    flat[0].ClearField("input")
    made = of_five(flat, [of("Identity", "x", "e")])
    assert made(rows(5))["y"].shape == (15,)
    with pytest.raises(InputError, match="asks"):
        made(rows(4))


def test_the_first_row_is_the_first_row() -> None:
    nodes = [of("Gather", "x first", "y", axis=0)]
    x = declared("x", shape=[2, 3])
    made = compiled(model_from(graph_of(nodes, [x], ["y"], {"first": np.array(0)})))
    assert made(rows(2))["y"].tolist() == [0, 1, 2]


def test_extents_of_a_call_that_differ_are_refused_by_input() -> None:
    other = declared("w", shape=["m", 3])
    made = compiled(model_from(graph_of([of("Add", "x w", "y")], [X, other], ["y"])))
    assert made(rows(2), rows(2))["y"].tolist() == (2 * rows(2)).tolist()
    with pytest.raises(InputError, match="input 'w': extent n cannot be 3 where n = 2"):
        made(rows(2), rows(3))


def test_extents_that_never_fit_are_refused_by_the_node_that_meets_them() -> None:
    graph = graph_of([of("Add", "x w", "y", name="adds")], [X, declared("w", shape=[4])], ["y"])
    with pytest.raises(FormatError, match=r"'adds' \(Add\).*3 and 4|'adds' \(Add\).*4 and 3"):
        compiled(model_from(graph))
