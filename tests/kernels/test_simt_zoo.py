"""The programs of the zoo as the work of threads, and the same ones with barriers taken out."""

from collections.abc import Sequence
from functools import cache

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from zoo_calls import call, close

from lamina.dialects.simt import BarrierOp
from lamina.errors import InputError, LaminaError
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.decompose_math import DecomposeMathPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.targets.reference.simt import run_simt_kernel
from lamina.testing.kernels import ZOO, context
from lamina.testing.zoo.case import ZooCase

pytestmark = pytest.mark.gpu

CASES = {case.name: case for case in ZOO}
BLOCKS = [(64, 32), (128, 8)]
"""Threads of a block, and of a subgroup."""


@cache
def threaded(name: str, threads: int, subgroup: int) -> ModuleOp:
    module = Parser(context(), CASES[name].path.read_text()).parse_module()
    layouts, threads_of = ChooseLayoutsPass(threads), LowerTilesPass(threads, subgroup)
    for each in (DecomposeMathPass(), layouts, threads_of):
        each.apply(context(), module)
    module.verify()
    return module


def barriers(module: ModuleOp) -> Sequence[BarrierOp]:
    return [op for op in module.walk() if isinstance(op, BarrierOp)]


@pytest.mark.parametrize(("threads", "subgroup"), BLOCKS)
@pytest.mark.parametrize("case", [c for c in ZOO if not c.error], ids=lambda c: c.name)
def test_threads_compute_what_numpy_does(case: ZooCase, threads, subgroup):
    program = threaded(case.name, threads, subgroup).body.block.first_op
    for size in case.sizes:
        made = call(case, size)
        run_simt_kernel(program, made.memrefs, made.symbols, seed=size)
        for position, expected in made.expected.items():
            assert close(made.memrefs[position], expected, case.tolerance), (size, position)


@pytest.mark.parametrize("case", [c for c in ZOO if c.error], ids=lambda c: c.name)
def test_a_failed_check_names_its_node(case):
    made = call(case, case.sizes[0])
    with pytest.raises(InputError, match=case.error):
        run_simt_kernel(threaded(case.name, 64, 32).body.block.first_op, *made[:2])


def run_without(case: ZooCase, gone: Sequence[int]) -> None:
    module = threaded(case.name, 64, 32).clone()
    for n, barrier in enumerate(barriers(module)):
        if n in gone:
            barrier.detach()
            barrier.erase()
    run_simt_kernel(module.body.block.first_op, *call(case, case.sizes[-1])[:2])


MEETING = [case for case in ZOO if barriers(threaded(case.name, 64, 32)) and not case.error]
ALONE = (
    "paged_attention",
    "split_kv_attention",
    "norm_quantize_matmul",
    "packed_matmul",
    "top_k",
    "scatter_duplicates",
)
"""Programs of which every single barrier is needed."""


@pytest.mark.parametrize("case", MEETING, ids=lambda c: c.name)
def test_a_program_without_its_barriers_is_caught(case):
    with pytest.raises(LaminaError, match=r"which (thread .*|other threads) .*, and no barrier"):
        run_without(case, range(len(barriers(threaded(case.name, 64, 32)))))


@pytest.mark.parametrize("name", ALONE)
def test_a_program_without_one_of_its_barriers_is_caught(name):
    count = len(barriers(threaded(name, 64, 32)))
    assert count > 1
    for n in range(count):
        with pytest.raises(LaminaError, match=r"which (thread .*|other threads) .*, and no barr"):
            run_without(CASES[name], [n])
