"""A sequence that goes to an operator which the standard writes out by its inputs' types."""

import numpy as np
from onnx_graphs import declared, graph_of, model_from, of

import lamina.onnx_backend


def test_a_graph_is_mapped_over_a_sequence() -> None:
    body = graph_of([of("Neg", "a", "b")], [declared("a", shape=[2])], ["b"])
    nodes = [
        of("SequenceConstruct", "x x", "s"),
        of("SequenceMap", "s", "t", body=body),
        of("ConcatFromSequence", "t", "y", axis=0),
    ]
    model = model_from(graph_of(nodes, [declared("x", shape=[2])], ["y"]))
    (y,) = lamina.onnx_backend.run_model(model, [np.array([1, 2], np.float32)])
    assert y.tolist() == [-1, -2, -1, -2]
