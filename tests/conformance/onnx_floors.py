"""How many tests of the package onnx pass, and how many of those with nothing on the host."""

from typing import NamedTuple


class Floor(NamedTuple):
    """The least number of tests of one kind that pass, and that pass compiled."""

    passed: int
    compiled: int


FLOORS = {
    "Node": Floor(0, 0),
    "Simple": Floor(0, 0),
    "PyTorchConverted": Floor(0, 0),
    "PyTorchOperator": Floor(0, 0),
    "Real": Floor(0, 0),
}
"""By the kind of test, as `onnx.backend.test` names it: to be raised, and never lowered."""

REASONS: dict[str, str] = {}
"""Why tests fail, by a pattern of their names. A test that fails is to match one of them."""
