"""Tiles of nothing and of no dimensions, which threads cannot share."""

import pytest
from xdsl.ir import Operation
from xdsl.parser import Parser

from lamina.errors import LoweringError
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.testing.kernels import context

TEXT = """tile.kernel @k attributes {symbols = [], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: MEMREF, %y: MEMREF):
  %c0 = arith.constant 0 : index
  %v = tile.load %x[AT] {shape = array<i64SHAPE>} : MEMREF [TYPES] -> TILE
  %d = arith.addf %v, %v : TILE
  tile.store %d, %y[AT] {shape = array<i64SHAPE>} : TILE, MEMREF [TYPES]
  tile.return
}"""
EMPTY = {"MEMREF": "memref<0xf32>", "AT": "%c0", "SHAPE": ": 0", "TYPES": "index"}
ALONE = {"MEMREF": "memref<f32>", "AT": "", "SHAPE": "", "TYPES": ""}


def module(parts: dict[str, str], tile: str) -> Operation:
    text = TEXT
    for name, part in {**parts, "TILE": tile}.items():
        text = text.replace(name, part)
    return Parser(context(), text).parse_module()


@pytest.mark.parametrize("step", [ChooseLayoutsPass(64), LowerTilesPass(64, 8)])
@pytest.mark.parametrize(
    ("parts", "tile", "why"),
    [
        (EMPTY, "vector<0xf32>", "elements: leave it out, for there is nothing to do"),
        (ALONE, "vector<f32>", "dimensions: expected f32, a scalar"),
    ],
)
def test_a_tile_that_threads_cannot_share_is_named(step, parts, tile, why):
    with pytest.raises(LoweringError, match=f"^kernel k: tile.load gives {tile}, .* no {why}$"):
        step.apply(context(), module(parts, tile))


def test_a_scalar_is_loaded_and_stored():
    found = module(ALONE, "f32")
    for step in (ChooseLayoutsPass(64), LowerTilesPass(64, 8)):
        step.apply(context(), found)
    assert "simt.store" in str(found)
