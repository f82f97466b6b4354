"""Every kernel becomes machine code of every architecture, with what it should have, and no more."""

import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from intrinsics import SAMPLES, SAMPLES_ALONE
from kernel_sources import UNITS, codes_of, kernels_of, product, ragged_product, tile_product
from machine_code import linked, listing

from lamina.targets.cuda.architectures import ARCHITECTURES
from lamina.targets.cuda.compiled_kernels import STATIC_SHARED
from lamina.targets.cuda.ptx import ALONE, INTRINSICS, to_ptx

pytestmark = pytest.mark.gpu

ON = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120")
BASE = "sm_80"
"""What PTX is made for by default."""

SOURCES = ("zoo", "products", "llama", "gpt2")
MOST_REGISTERS = 255

MATRIX_UNITS = {"bf16": "HMMA.16816.F32.BF16", "f16": "HMMA.16816.F32", "i8": "IMMA.16832.S8.S8"}

WIDE = ("LDG.E.128", "LDGSTS.E.BYPASS.128")
WIDE_LOADS = {"bf16": WIDE, "f16": WIDE, "i8": ("LDG.E.64", *WIDE)}
"""How what units multiply is fetched: 8 elements at once at least."""


@pytest.fixture(scope="module")
def sass(tmp_path_factory: pytest.TempPathFactory):
    """Return the instructions of machine code, as nvdisasm lists them."""
    folder = tmp_path_factory.mktemp("sass")
    return lambda cubin: listing(cubin, folder)


@cache
def ptx_of(source: str, arch: str) -> str:
    return to_ptx([code.text for code in kernels_of(source)], arch)


def check(usage: Mapping[str, Mapping[str, int]], source: str) -> None:
    """Every kernel is there, and fits: nothing is spilled to memory."""
    assert usage.keys() == {code.name for code in kernels_of(source)}
    for name, used in usage.items():
        assert used["spilled_bytes"] == used["stack_bytes"] == 0, (name, used)
        assert used["registers"] <= MOST_REGISTERS, (name, used)
        assert used["shared_bytes"] <= STATIC_SHARED, (name, used)


OFTEN = (
    *((source, arch) for source in ("zoo", "products") for arch in (BASE, "sm_90a", "sm_120")),
    ("llama", BASE),
)
"""What is assembled every time."""
SELDOM = [(source, arch) for source in SOURCES for arch in ON if (source, arch) not in OFTEN]


@pytest.mark.parametrize(("source", "arch"), OFTEN)
def test_ptx_for_the_oldest_architecture_becomes_code_of_others(source, arch):
    check(linked(ptx_of(source, BASE), arch).usage, source)


@pytest.mark.gpu
@pytest.mark.parametrize(("source", "arch"), SELDOM)
def test_ptx_for_the_oldest_architecture_becomes_code_of_each(source, arch):
    check(linked(ptx_of(source, BASE), arch).usage, source)


@pytest.mark.gpu
@pytest.mark.parametrize("arch", [arch for arch in ON if arch != BASE])
@pytest.mark.parametrize("source", SOURCES)
def test_ptx_for_an_architecture_becomes_its_code(source, arch):
    check(linked(ptx_of(source, arch), arch).usage, source)


@pytest.mark.parametrize("kind", UNITS)
def test_a_product_of_tiles_is_made_by_matrix_units(kind, sass):
    (code,) = codes_of(tile_product(kind))
    text = sass(linked(to_ptx([code.text], BASE), BASE))
    assert MATRIX_UNITS[kind] in text
    assert any(load in text for load in WIDE_LOADS[kind])


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_a_large_product_keeps_matrix_units_busy(kind, sass):
    (code,) = codes_of(product(kind, 4096))
    ptx = to_ptx([code.text], BASE)
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32" in ptx
    cubin = linked(ptx, BASE)
    ((name, used),) = cubin.usage.items()
    print(f"{kind} 4096^3, {BASE}, {name}: {dict(used)}, {code.shared_bytes} bytes shared")
    assert used["spilled_bytes"] == used["stack_bytes"] == 0
    text = sass(cubin)
    assert text.count(MATRIX_UNITS[kind]) >= 64
    assert ".128" in text
    assert "STL" not in text
    assert "LDL" not in text


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_a_large_product_is_multiplied_by_warpgroups_where_there_are_any(kind, sass):
    (code,) = codes_of(product(kind, 4096, "sm_90a"))
    cubin = linked(to_ptx([code.text], "sm_90a"), "sm_90a")
    ((name, used),) = cubin.usage.items()
    print(f"{kind} 4096^3, sm_90a, {name}: {dict(used)}, {code.shared_bytes} bytes shared")
    assert used["spilled_bytes"] == used["stack_bytes"] == 0
    text = sass(cubin)
    assert "HGMMA.64x256x16.F32" in text
    assert "UTMALDG.2D" in text
    assert "WARPGROUP.DEPBAR.LE gsb0, 0x1" in text


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_a_large_product_of_bytes_keeps_matrix_units_busy(arch, sass):
    for size in (4096, 160):
        (code,) = codes_of(ragged_product("i8", (size,) * 3, arch, turned=True))
        cubin = linked(to_ptx([code.text], arch), arch)
        ((_, used),) = cubin.usage.items()
        assert used["spilled_bytes"] == used["stack_bytes"] == 0
        text = sass(cubin)
        assert MATRIX_UNITS["i8"] in text
        assert "LDGSTS.E.BYPASS.128" in text


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_floats_are_multiplied_by_matrix_units_where_a_target_is_told_to(arch, sass):
    (exact,), (code,) = (
        codes_of(ragged_product("f32", (4096,) * 3, arch, tf32=tf32)) for tf32 in (False, True)
    )
    cubin = linked(to_ptx([code.text], arch), arch)
    ((_, used),) = cubin.usage.items()
    assert used["spilled_bytes"] == used["stack_bytes"] == 0
    assert "HMMA.1688.F32.TF32" in sass(cubin)
    assert "HMMA" not in sass(linked(to_ptx([exact.text], arch), arch))


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_a_large_product_of_floats_is_copied_ahead_and_multiplied_in_registers(arch, turned, sass):
    (code,) = codes_of(ragged_product("f32", (4096,) * 3, arch, turned=turned))
    cubin = linked(to_ptx([code.text], arch), arch)
    ((name, used),) = cubin.usage.items()
    print(f"f32 4096^3, {arch}, {name}: {dict(used)}, {code.shared_bytes} bytes shared")
    assert used["spilled_bytes"] == used["stack_bytes"] == 0
    text = sass(cubin)
    assert text.count("FFMA") >= 256
    assert "LDGSTS.E.BYPASS.128" in text
    assert "LDS.128" in text


SPILLED_ONCE = {"gelu": 64}
"""Bytes that a thread may spill behind its last round, where formulas are long."""


@pytest.mark.parametrize("end", ["add", "gelu", "silu"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_what_follows_a_large_product_has_room_beside_its_sums(kind, arch, end):
    (code,) = codes_of(ragged_product(kind, (4096,) * 3, arch, end=end))
    ((_, used),) = linked(to_ptx([code.text], arch), arch).usage.items()
    assert used["spilled_bytes"] <= SPILLED_ONCE.get(end, 0)


RAGGED = ((4095, 4096, 4096), (4096, 4095, 4096), (4096, 4096, 4095), (1000,) * 3, (77, 33, 65))


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_products_of_ragged_extents_spill_nothing(kind, arch, turned):
    for sizes in RAGGED:
        (code,) = codes_of(ragged_product(kind, sizes, arch, turned=turned))
        ((_, used),) = linked(to_ptx([code.text], arch), arch).usage.items()
        assert used["spilled_bytes"] == used["stack_bytes"] == 0, (sizes, used)


def test_every_intrinsic_that_may_be_used_has_a_sample():
    used = [(INTRINSICS, SAMPLES), *((ALONE[arch], SAMPLES_ALONE[arch]) for arch in ALONE)]
    for names, samples in used:
        assert not [name for name in names if not any(f"@llvm.{name}" in s for s in samples)]


def test_every_intrinsic_that_may_be_used_is_selected():
    # One that cannot be ends the process: what LLVM says of it is shown.
    script = Path(__file__).with_name("intrinsics.py")
    command = [sys.executable, script, *ARCHITECTURES]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    last = run.stdout.splitlines()[-1:]
    assert (run.returncode, last) == (0, ["all"]), run.stderr[-1000:]
