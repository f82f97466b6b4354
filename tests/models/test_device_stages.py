"""Every stage on the way to a GPU is text, and compiles to the same artifact, byte for byte."""

from itertools import pairwise
from pathlib import Path

import pytest
from replay import goes_on
from xdsl.parser import Parser

import lamina
from lamina import compiler
from lamina.frontend.model import Model
from lamina.plugins import manager
from lamina.targets.base import Artifact

TARGETS = ("webgpu{kv=f16}", 'cuda{arch="sm_90"}', "metal{fallback=error}")
SOFTMAX = """
!f = tensor<?x40xf32, #nn.dims<["T"]>>
func.func @forward(%x: !f {lamina.input = "x"}) -> (!f {lamina.output = "y"}) {
  %y = nn.softmax %x {axis = 1 : i64} : (!f) -> !f
  func.return %y : !f
}
"""


def emitted(stage: object) -> Artifact:
    """What a stage is compiled to, of itself: no target is named."""
    target = compiler.resolve_target("auto", stage)
    return target.emit(manager.context(), compiler.lower(stage))


def stages(model: object, target: str, folder: Path) -> tuple[Artifact, list[Model]]:
    """The artifact of a model, and the stages that it came by."""
    context = manager.context()
    module = compiler.lower(model, target, dump=folder)
    made = compiler.resolve_target(target).emit(context, module)
    return made, [lamina.read(path) for path in sorted(folder.glob("*.mlir"))]


@pytest.mark.parametrize("target", TARGETS)
def test_a_small_graph_compiles_to_the_same_artifact_from_every_stage(target, tmp_path):
    made, found = stages(Parser(manager.context(), SOFTMAX).parse_module(), target, tmp_path)
    assert len(found) > 6
    assert [n for n, stage in enumerate(found) if emitted(stage.module) != made] == []


@pytest.mark.gpu
@pytest.mark.parametrize("target", TARGETS)
def test_a_decoder_compiles_to_the_same_artifact_from_every_stage(target, tiny, tmp_path):
    made, found = stages(tiny("llama")[1], target, tmp_path)
    assert [n for n, pair in enumerate(pairwise(found)) if not goes_on(*pair)] == []
    assert emitted(found[-1]) == made
