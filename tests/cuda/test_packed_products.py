"""Products with packed weights on CUDA: the same bits for any rows, and what machine code has."""

from functools import cache

import numpy as np
import pytest
from fake_cuda import FakeCudaTarget
from kernel_sources import codes_of
from machine_code import instructions, linked
from xdsl.dialects.builtin import f32
from xdsl.passes import ModulePass

from lamina import compiler
from lamina.dialects import nn, quant
from lamina.errors import InputError
from lamina.passes.choose_variants import ChooseVariantsPass
from lamina.targets.cuda.ptx import to_ptx
from lamina.targets.cuda.target import CudaTarget
from lamina.testing.sheet import Sheet
from lamina.testing.suites.quantised import FORMATS, stored
from lamina.testing.values import normal

pytestmark = pytest.mark.gpu

ON = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120")
WAYS = ("f32", "auto")
ROWS = (1, 16, 130)
"""Rows of each branch of a step."""


def sheet_of(format: str, depth: int, columns: int) -> Sheet:
    sheet = Sheet()
    x = sheet.given("x", f32, ["N", depth], normal)
    w = stored(sheet, "w", format, columns, depth)
    numbers = sheet.add(quant.DequantizeOp([w], columns, depth))
    sheet.compute("y", nn.DotGeneralOp(x, numbers, [(1, 1)]))
    return sheet


def in_branches(target: CudaTarget) -> tuple[ModulePass, ...]:
    """Return the target's passes, by which products of few rows have branches without attention."""
    return tuple(
        ChooseVariantsPass(ROWS[:-1]) if isinstance(each, ChooseVariantsPass) else each
        for each in target.passes()
    )


@cache
def ptx_of(format: str, way: str, arch: str = "sm_80") -> str:
    target = CudaTarget(arch, activations=way)
    module = compiler.lower(sheet_of(format, 4096, 4096).module, target, in_branches(target))
    return to_ptx([code.text for code in codes_of(module)], arch)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format", ["q4_1", "q6_k", "q8_0"])
def test_a_row_has_the_same_bits_in_every_branch(format: str, way: str) -> None:
    # Seventeen blocks do not come out even among the partial sums.
    depth = 512 if format.endswith("k") else 544
    sheet = sheet_of(format, depth, 48)
    target = FakeCudaTarget(activations=way)
    run = compiler.compile(sheet.module, target, in_branches(target), weights=sheet.weights)
    x = np.random.default_rng(7).standard_normal((ROWS[-1], depth), np.float32)
    whole = run(x)["y"]
    for rows in ROWS[:-1]:
        assert np.array_equal(run(x[-rows:])["y"], whole[-rows:]), rows


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format", FORMATS)
def test_products_of_any_rows_spill_nothing(format: str, way: str) -> None:
    usage = linked(ptx_of(format, way), "sm_80").usage
    assert len(usage) >= len(ROWS)
    assert all(used["spilled_bytes"] == used["stack_bytes"] == 0 for used in usage.values()), usage


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("arch", ON[1:])
def test_products_spill_nothing_on_any_architecture(arch: str, way: str) -> None:
    usage = linked(ptx_of("q4_1", way, arch), arch).usage
    assert all(used["spilled_bytes"] == used["stack_bytes"] == 0 for used in usage.values()), usage


@pytest.mark.parametrize("way", WAYS)
def test_weights_are_loaded_by_sixteen_bytes_and_multiplied_by_units(way: str, tmp_path) -> None:
    found = instructions(linked(ptx_of("q4_1", way), "sm_80"), tmp_path)
    assert found["LDG.E.128.CONSTANT"] >= 8 * len(ROWS)
    assert ("IMMA.16832.S8.U8" in found) == (way == "auto")
    assert not found.keys() & {"LDL", "STL"}


def test_another_kind_of_activations_is_refused() -> None:
    with pytest.raises(InputError, match="activations: expected f32 or auto, got 'f16'"):
        CudaTarget(activations="f16").passes()
