"""How many tests of the package onnx pass, and how many of those with nothing on the host."""

from typing import NamedTuple


class Floor(NamedTuple):
    """The least number of tests of one kind that pass, and that pass compiled."""

    passed: int
    compiled: int


FLOORS = {
    "Node": Floor(1827, 1680),
    "Simple": Floor(20, 14),
    "PyTorchConverted": Floor(82, 82),
    "PyTorchOperator": Floor(35, 35),
    "Real": Floor(9, 9),
}
"""By the kind of test, as `onnx.backend.test` names it: to be raised, and never lowered."""

_SEQUENCES = "sequences and optionals are no inputs or outputs of a model"
_TRAINING = "training"
_RANDOM = "expects the numbers of NumPy's generator"

REASONS: dict[str, str] = {
    r"test_(adagrad|adam|momentum|nesterov_momentum)(_.*)?": _TRAINING,
    r"test_gradient_.*": _TRAINING,
    r"test_batchnorm_.*_training_mode": _TRAINING,
    r"test_ai_onnx_ml_(?!label_encoder).*": "of ai.onnx.ml there is LabelEncoder alone",
    r"test_bernoulli(_.*)?": _RANDOM,
    r"test_training_dropout(_.*)?": _RANDOM,
    r"test_(identity|if|loop13|loop16)_(opt|seq|sequence)(_.*)?": _SEQUENCES,
    r"test_optional_(get|has)_element_.*": _SEQUENCES,
    r"test_sequence_.*": _SEQUENCES,
    r"test_split_to_sequence_.*": _SEQUENCES,
    r"test_affine_grid_3d_align_corners_expanded": "branches whose results differ in rank",
    r"test_attention_4d_causal_fp16(_expanded)?": "expects rounding to f16 within the softmax",
    r"test_dft_inverse(_.*)?": "expects the rounding of NumPy's transform near 0",
}
"""Why tests fail, by a pattern of their names. A test that fails is to match one of them."""
