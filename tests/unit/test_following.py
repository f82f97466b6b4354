"""Programs of a product ask for what the programs after them read, whatever the batch."""

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from group_module import Body, arrays_of, module_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import lamina.plugins.manager  # noqa: F401 (it makes the rules of tiles known)
from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim
from lamina.passes.kernels.build import build_kernel
from lamina.passes.kernels.following import MOST_LINES
from lamina.passes.schedules.cost_model import CostModel, Linear
from lamina.targets.cpu.features import detect, levels
from lamina.targets.cpu.jit import assembly
from lamina.targets.cpu.lowering import NodeTable, emit_kernel
from lamina.targets.cpu.schedules import machine_of
from lamina.targets.reference.kernel import MEANINGS, run_kernel

DEPTH, PANELS, ROWS, STEP = 32, 4, 4, 4


def product(kind: str, **schedule: int) -> ModuleOp:
    def build(body: Body) -> SSAValue:
        x, w = body.arg(f"f32[T, {DEPTH}]"), body.arg(f"{kind}[{PANELS}, {DEPTH}, 16]")
        wide = w if kind == "f32" else body.add(nn.CastOp(w, nn.element(x)))
        y = body.add(nn.DotGeneralOp(x, wide, [(1, 1)]))
        return body.add(nn.ReshapeOp(y, [Dim.symbol("T"), PANELS * 16]))

    return module_of(build, "linear", **schedule)


def kernel_of(module: ModuleOp) -> tile.KernelOp:
    return build_kernel(next(op for op in module.ops if isinstance(op, nn.GroupOp)), "g")


def asked(kind: str, rows: int, columns: int = 32) -> list[tuple[int, ...]]:
    """The program, the argument's rank, and where the first element lies, of each hint."""
    module = product(kind, m=ROWS, n=columns, r=16, k=STEP)
    found: list[tuple[int, ...]] = []

    def note(run: Any, op: tile.PrefetchOp, args: tuple[Any, ...]) -> tuple[()]:
        found.append((*run.place, args[0].ndim, *(int(at) for at in args[1:])))
        return ()

    arrays = [*arrays_of(module, T=rows), np.zeros((rows, PANELS * 16), np.float32)]
    run_kernel(
        kernel_of(module), arrays, {"n0": rows}, meanings={**MEANINGS, tile.PrefetchOp: note}
    )
    return found


@pytest.mark.parametrize(("kind", "apart"), [("f32", 1), ("f16", 2)])
@pytest.mark.parametrize("rows", [5, 8, 30, 64])
def test_blocks_of_rows_ask_for_the_whole_next_tile(kind: str, apart: int, rows: int) -> None:
    hints = [hint[4:6] for hint in asked(kind, rows) if hint[3] == 3 and hint[2] == 0]
    assert {*hints} == {(panel, k) for panel in (2, 3) for k in range(0, DEPTH, apart)}


def test_each_line_of_the_next_chosenbut_its_first_is_asked_for_once() -> None:
    hints = [hint[4:] for hint in asked("f32", 64) if hint[3] == 3 and hint[2] == 0]
    assert {count for (_, k, _), count in Counter(hints).items() if k} == {1}


def test_a_block_asks_for_the_rows_of_the_next() -> None:
    hints = {hint[4:] for hint in asked("f32", 12) if hint[:3] == (0, 1, 0) and hint[3] == 2}
    assert hints == {(row, k) for row in range(8, 12) for k in range(0, DEPTH, 16)}


def test_a_tile_of_all_columns_asks_for_rows_alone() -> None:
    assert {hint[3] for hint in asked("f32", 12, PANELS * 16)} == {2}


def test_a_step_asks_for_no_more_lines_than_can_be_under_way() -> None:
    hints = [hint for hint in asked("f32", 1) if hint[3] == 3 and hint[:3] == (0, 0, 0)]
    steps = 2 * DEPTH // STEP
    assert len(hints) <= MOST_LINES * steps


@pytest.mark.parametrize("level", [level for level in levels() if detect(level).fma])
def test_sums_stay_in_registers_beside_the_hints(level: str) -> None:
    features = detect(level)
    chosen = CostModel(machine_of(features)).linear(Linear(DEPTH, PANELS * 16, (1, 2, 4)))
    kernel = kernel_of(product("f32", **chosen.numbers))
    text = assembly(emit_kernel(kernel, features, NodeTable()).text, features)
    assert text.count("vfmadd231ps") == chosen.m * chosen.r * chosen.k // features.lanes(32)
    assert not re.search(r"vmov\w+\s+%[xyz]mm\d+, -?\d*\(%rsp\)", text)
