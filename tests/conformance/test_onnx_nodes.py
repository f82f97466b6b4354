"""A few tests of the package onnx for each of many operators; `make test-onnx` runs them all."""

import re
import warnings
from collections import defaultdict
from importlib import import_module

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case import node as cases
from onnx_floors import REASONS

from lamina import onnx_backend

MODULES = """
argmax and_ averagepool batch_normalization cast castlike ceil celu clip compress concat constant
constantofshape conv convtranspose cumsum depthtospace dequantizelinear einsum elu
equal expand eyelike flatten gather gatherelements gathernd gelu gemm globalaveragepool
groupnormalization gru hardmax hardsigmoid identity if_ instance_normalization isnan layernormalization leakyrelu
logsoftmax loop lstm matmul matmulinteger max maxpool mean min mod nonzero not_ onehot pad pow prelu
quantizelinear rangeop reducel2 reducemax reducemean reshape reversesequence rmsnormalization rnn
rotaryembedding scan scatterelements scatternd shape sign slice softmax softplus spacetodepth split
squeeze stft sum tile topk transpose trilu unsqueeze where xor
""".split()
EACH = 1
"""How many tests of each of these files are taken: the first ones."""


def collected() -> list:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODULES:
            import_module(f"onnx.backend.test.case.node.{name}")
    of_file = defaultdict(list)
    for case in cases._NodeTestCases:
        known = any(re.fullmatch(pattern, case.name) for pattern in REASONS)
        if not known and "_expanded" not in case.name:
            of_file[case.model.graph.node[0].op_type].append(case)
    return [case for found in of_file.values() for case in found[:EACH]]


def array(value: object) -> object:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


@pytest.mark.filterwarnings("ignore:.*by its NumPy meaning")
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in collected()])
def test_a_node_gives_what_the_standard_says(case) -> None:
    made = onnx_backend.prepare(case.model)
    for inputs, outputs in case.data_sets:
        for got, expected in zip(made.run([array(x) for x in inputs]), outputs, strict=True):
            np.testing.assert_allclose(got, array(expected), rtol=case.rtol, atol=case.atol)
            assert np.asarray(got).dtype == np.asarray(array(expected)).dtype
