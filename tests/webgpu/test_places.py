"""Narrow elements that come from one word: which registers share it, and that they are right."""

import numpy as np
import pytest
from device_kernel import run_on
from simt_text import kernel

from lamina.dialects import simt
from lamina.targets.webgpu.places import Places
from lamina.targets.webgpu.printer import NodeTable
from lamina.targets.webgpu.wgsl import emit_kernel

ARGS = "%x: memref<?xi8>, %y: memref<?xi8>"
GATHER = """
  %r = arith.constant dense<[FOUR]> : vector<4xindex>
  %k = arith.constant STEP : index
  %first = arith.muli %t, %k : index
  %firsts = tile.splat %first : (index) -> vector<4xindex>
  %at = arith.addi %firsts, %r : vector<4xindex>
  %v = simt.load %x[%at] : memref<?xi8>, vector<4xindex> -> vector<4xi8>
  %c4 = arith.constant 4 : index
  %own = arith.muli %t, %c4 : index
  %owns = tile.splat %own : (index) -> vector<4xindex>
  %to = arith.constant dense<[0, 1, 2, 3]> : vector<4xindex>
  %into = arith.addi %owns, %to : vector<4xindex>
  simt.store %v, %y[%into] : vector<4xi8>, memref<?xi8>, vector<4xindex>
"""


def gather(places: str, step: int) -> simt.KernelOp:
    return kernel(GATHER.replace("FOUR", places).replace("STEP", str(step)), ARGS)


@pytest.mark.parametrize(
    ("places", "step", "expected"),
    [
        ("0, 1, 2, 3", 4, [(0, 0), (0, 1), (0, 2), (0, 3)]),
        ("3, 4, 5, 11", 8, [(0, 3), (1, 0), (1, 1), (3, 3)]),
        ("0, 1, 2, 3", 6, None),
        ("0, 16, 32, 48", 1, None),
    ],
)
def test_registers_share_a_word_where_it_is_known_where_they_are(places, step, expected):
    (load,) = (op for op in gather(places, step).body.walk() if isinstance(op, simt.LoadOp))
    assert Places().words(load.at, 4) == expected


@pytest.mark.parametrize(
    ("places", "step"), [("0, 1, 2, 3", 4), ("3, 4, 5, 11", 8), ("0, 1, 2, 3", 6)]
)
def test_shared_words_give_the_elements_themselves(device, places, step):
    x = np.random.default_rng(1).integers(-128, 127, 600).astype(np.int8)
    y = np.zeros(256, np.int8)
    run_on(device, gather(places, step), [x, y], {"n": 0}, reads=[True, False])
    at = np.arange(64)[:, None] * step + [int(each) for each in places.split(",")]
    np.testing.assert_array_equal(y.reshape(64, 4), x[at])


def test_a_word_is_loaded_once():
    text = emit_kernel(gather("0, 1, 2, 3", 4), [True, False], NodeTable())
    assert text.after.count("load_m0(") == 1
    plain = emit_kernel(gather("0, 1, 2, 3", 4), [False, False], NodeTable())
    assert plain.after.count("load_m0(") == 4
