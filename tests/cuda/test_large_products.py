"""Products that are large enough for the large tiles of matrix units, on a device that is none."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from fake_cuda import FakeCudaTarget
from kernel_sources import codes_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import lamina
from lamina import compiler
from lamina.plugins import manager
from lamina.targets.base import Executable
from lamina.targets.reference.numerics import tf32
from lamina.testing.ptx import Specification
from lamina.testing.ptx.driver import FakeDriver

COLUMNS, DEPTH = 2048, 192
DEVICES = {"sm_80": (8, 0), "sm_90a": (9, 0)}
ELEMENTS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
SUMS = {"i8": "i32", "ui8": "i32"}
WAYS = {"rows": ([DEPTH, COLUMNS], 0), "columns": ([COLUMNS, DEPTH], 1)}


def product(kind: str, way: str, *, end: str = "") -> ModuleOp:
    """As many rows as there are, by a matrix whose rows or columns are summed over, and `end`."""
    (first, second), contracted = WAYS[way]
    x, w = f'tensor<?x{DEPTH}x{kind}, #nn.dims<["T"]>>', f"tensor<{first}x{second}x{kind}>"
    y = f'tensor<?x{COLUMNS}x{SUMS.get(kind, "f32")}, #nn.dims<["T"]>>'
    return Parser(
        manager.context(),
        f"""
func.func @forward(%x: {x} {{lamina.input = "x"}}, %w: {w} {{lamina.input = "w"}})
    -> ({y} {{lamina.output = "y"}}) {{
  %y = nn.dot_general %x, %w {{contract = [[1, {contracted}]], lamina.src = ["/y"]}} : ({x}, {w}) -> {y}
  {f"%z = nn.{end} %y : {y}" if end else ""}
  func.return {"%z" if end else "%y"} : {y}
}}""",
    ).parse_module()


@cache
def executable(kind: str, way: str, arch: str, *, tf32: bool = False, end: str = "") -> Executable:
    target = FakeCudaTarget(arch, tf32=tf32, driver=FakeDriver([Specification(DEVICES[arch])]))
    return lamina.compile(product(kind, way, end=end), target)


@pytest.mark.parametrize("arch", DEVICES)
@pytest.mark.parametrize(("kind", "way", "rows"), [("bf16", "rows", 130), ("f16", "columns", 77)])
def test_large_tiles_give_what_numpy_does(kind: str, way: str, rows: int, arch: str) -> None:
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, DEPTH), np.float32).astype(ELEMENTS[kind])
    w = rng.standard_normal(WAYS[way][0], np.float32).astype(ELEMENTS[kind])
    (y,) = executable(kind, way, arch)(x=x, w=w).values()
    right = x.astype("f8") @ (w.T if WAYS[way][1] else w).astype("f8")
    assert np.allclose(y, right, atol=1e-3)


@pytest.mark.parametrize("arch", DEVICES)
def test_what_follows_is_computed_for_a_part_of_a_tile_at_a_time(arch: str) -> None:
    rng = np.random.default_rng(6)
    x, w = (rng.standard_normal(s, np.float32) for s in ((100, DEPTH), WAYS["rows"][0]))
    x, w = (each.astype(ELEMENTS["bf16"]) for each in (x, w))
    (y,) = executable("bf16", "rows", arch, end="silu")(x=x, w=w).values()
    right = x.astype("f8") @ w.astype("f8")
    assert np.allclose(y, right / (1 + np.exp(-right)), atol=1e-3)


@pytest.mark.parametrize("kind", ["i8", pytest.param("ui8", marks=pytest.mark.gpu)])
def test_bytes_are_multiplied_by_matrix_units(kind: str) -> None:
    rng = np.random.default_rng(4)
    dtype = {"i8": np.int8, "ui8": np.uint8}[kind]
    x = rng.integers(0, 256, (130, DEPTH), np.uint8).view(dtype)
    w = rng.integers(0, 256, WAYS["columns"][0], np.uint8).view(dtype)
    (y,) = executable(kind, "columns", "sm_80")(x=x, w=w).values()
    assert np.array_equal(y, x.astype("i4") @ w.astype("i4").T)
    (code,) = codes_of(compiler.lower(product(kind, "columns"), FakeCudaTarget()))
    assert f"mma.m16n8k32.row.col.{'u8' if kind == 'ui8' else 's8'}" in code.text


@pytest.mark.gpu
@pytest.mark.parametrize("way", WAYS)
def test_large_tiles_without_units_are_summed_in_ascending_order(way: str) -> None:
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(s, np.float32) for s in ((30, DEPTH), WAYS[way][0]))
    (y,) = executable("f32", way, "sm_80")(x=x, w=w).values()
    total = np.zeros(y.shape, np.float64)
    for a, b in zip(x.T, w.T if WAYS[way][1] else w, strict=True):
        total = (np.outer(a.astype("f8"), b) + total).astype(np.float32).astype("f8")
    assert np.abs(y - total).max() < 1e-5


def test_large_tiles_of_f32_take_ten_bits_of_fraction_where_told_to() -> None:
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(s, np.float32) for s in ((9, DEPTH), WAYS["rows"][0]))
    (y,) = executable("f32", "rows", "sm_80", tf32=True)(x=x, w=w).values()
    assert np.allclose(y, tf32(x).astype("f8") @ tf32(w), atol=1e-4)
    assert not np.allclose(y, x.astype("f8") @ w, atol=1e-4)


@pytest.mark.parametrize("arch", DEVICES)
def test_large_tiles_are_given_the_memory_that_they_need(arch: str) -> None:
    module = compiler.lower(product("bf16", "rows"), FakeCudaTarget(arch))
    *_, code = codes_of(module)
    assert code.shared_bytes > 48 << 10


def test_tensors_are_described_anew_where_a_step_is_replayed() -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal(WAYS["rows"][0], np.float32).astype(ELEMENTS["bf16"])
    for rows in (5, 5, 9):
        x = rng.standard_normal((rows, DEPTH), np.float32).astype(ELEMENTS["bf16"])
        (y,) = executable("bf16", "rows", "sm_90a")(x=x, w=w).values()
        assert np.allclose(y, x.astype("f8") @ w.astype("f8"), atol=1e-3)
