"""Random programs of a block leave what its threads leave, however many there are, without races."""

from dataclasses import dataclass

import numpy as np
import pytest
from tile_moves import MOVES, PRODUCTS
from tile_programs import Program, arrays
from xdsl.dialects.builtin import ModuleOp

from lamina.dialects import simt, tile
from lamina.errors import LaminaError
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.targets.reference.kernel import run_kernel
from lamina.targets.reference.simt import run_simt_kernel
from lamina.testing.kernels import context


@dataclass(frozen=True)
class Threads:
    """How a program is shared: threads of a block and of a subgroup, and what units multiply."""

    threads: int
    subgroup: int
    fragments: bool = False
    narrow: bool = False
    stages: int = 1

    def lower(self, module: ModuleOp) -> simt.KernelOp:
        module = module.clone()
        ChooseLayoutsPass(self.threads, self.fragments).apply(context(), module)
        lowering = LowerTilesPass(self.threads, self.subgroup, 1 << 24, self.narrow, self.stages)
        lowering.apply(context(), module)
        module.verify()
        kernel = module.body.block.first_op
        assert isinstance(kernel, simt.KernelOp)
        return kernel


ANY = (
    Threads(64, 32),
    Threads(64, 8),
    Threads(128, 32, fragments=True, narrow=True, stages=3),
    Threads(32, 32, fragments=True, narrow=True, stages=2),
    Threads(64, 32, fragments=True),
    Threads(1, 1),
    Threads(96, 32, narrow=True),
    Threads(24, 4),
    Threads(7, 1),
)
UNITS = (ANY[2], ANY[3], Threads(64, 32, fragments=True, narrow=True))
FEW, MANY = range(10), range(1000, 1100)


def check(program: Program, seed: int, threads: Threads) -> None:
    block = program.module.body.block.first_op
    assert isinstance(block, tile.KernelOp)
    expected, found = arrays(program, seed), arrays(program, seed)
    symbols = {"n": (0, 1, 3, 31)[seed % 4]}
    run_kernel(block, expected, symbols)
    run_simt_kernel(threads.lower(program.module), found, symbols)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.gpu) for seed in MANY)]
)
def test_threads_leave_what_their_block_does(seed: int) -> None:
    program = Program(seed, MOVES)
    for n in range(2):
        check(program, seed, ANY[(2 * seed + n) % len(ANY)])


@pytest.mark.parametrize(
    "seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.gpu) for seed in MANY)]
)
def test_products_on_units_are_those_of_the_block(seed: int) -> None:
    check(Program(seed, PRODUCTS), seed, UNITS[seed % len(UNITS)])


def races(seed: int) -> bool | None:
    """Tell whether threads that do not wait for each other are noticed; None if they need not."""
    program, threads = Program(seed, PRODUCTS), UNITS[seed % len(UNITS)]
    kernel = threads.lower(program.module)
    barriers = [op for op in kernel.body.walk() if isinstance(op, simt.BarrierOp)]
    for barrier in barriers:
        barrier.detach()
        barrier.erase()
    try:
        run_simt_kernel(kernel, arrays(program, seed), {"n": 3})
    except LaminaError as error:
        return "no barrier is between" in str(error)
    return False if barriers else None


@pytest.mark.gpu
def test_programs_without_their_barriers_are_caught() -> None:
    found = [each for each in map(races, FEW) if each is not None]
    assert len(found) > len(FEW) // 2
    assert sum(found) >= len(found) - 1, "a loop may have no round that needs one"
