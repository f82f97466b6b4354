"""Matrices in the registers of a warp: loads, stores and products, against NumPy."""

import ml_dtypes
import numpy as np
import pytest
from launching import entry, launch

BF16 = np.dtype(ml_dtypes.bfloat16)
SHARED = (
    ".shared .align 16 .b8 a[512]; .shared .align 16 .b8 b[256]; mov.u32 %r20, a; mov.u32 %r21, b;"
)


def fill(count: int) -> str:
    """Copy `count` bytes of each operand to shared memory, 4 by each thread at a time."""
    lines = []
    for pointer, start, size in (("%rd0", "%r20", count * 2), ("%rd1", "%r21", count)):
        for at in range(0, size, 128):
            lines.append(
                f"mad.wide.u32 %rd9, %r0, 4, {pointer}; ld.global.u32 %r1, [%rd9+{at}];"
                f"shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, {start}; st.shared.u32 [%r4+{at}], %r1;"
            )
    return "\n".join(lines) + "bar.sync 0;"


def product(form: str, row_bytes: int, accumulators: int = 4) -> str:
    """D = A · Bᵀ + C for operands whose rows have so many bytes, 16 or 32."""
    wide = row_bytes == 32
    regs_a = "{%r10,%r11,%r12,%r13}" if wide else "{%r10,%r11}"
    regs_b = "{%r14,%r15}" if wide else "{%r14}"
    acc = "{" + ",".join(f"%r{30 + n}" for n in range(accumulators)) + "}"
    return f"""{SHARED}{fill(8 * row_bytes)}
    and.b32 %r2, %r0, 15; shr.u32 %r3, %r0, 4; mad.lo.u32 %r4, %r2, {row_bytes}, %r20;
    mad.lo.u32 %r4, %r3, 16, %r4; ldmatrix.sync.aligned.m8n8.x{4 if wide else 2}.shared.b16 {regs_a}, [%r4];
    and.b32 %r2, %r0, 7; shr.u32 %r3, %r0, 3; and.b32 %r3, %r3, 1; mad.lo.u32 %r4, %r2, {row_bytes}, %r21;
    mad.lo.u32 %r4, %r3, 16, %r4; ldmatrix.sync.aligned.m8n8.x{2 if wide else 1}.shared.b16 {regs_b}, [%r4];
    shr.u32 %r5, %r0, 2; and.b32 %r6, %r0, 3; mad.lo.u32 %r7, %r5, 8, 0; mad.lo.u32 %r7, %r6, 2, %r7;
    mad.wide.u32 %rd5, %r7, {16 // accumulators}, %rd2;
    ACCUMULATORS
    mma.sync.aligned.{form} {acc}, {regs_a}, {regs_b}, {acc};
    STORES
    """


IN_WORDS = "ld.global.v2.b32 {%r30,%r31}, [%rd5]; ld.global.v2.b32 {%r32,%r33}, [%rd5+256];"
OUT_WORDS = "st.global.v2.b32 [%rd5], {%r30,%r31}; st.global.v2.b32 [%rd5+256], {%r32,%r33};"


def words(text: str) -> str:
    return entry(
        text.replace("ACCUMULATORS", IN_WORDS).replace("STORES", OUT_WORDS), 3, target="sm_89"
    )


FLOATS = {
    "m16n8k16.row.col.f32.f16.f16.f32": (np.dtype("f2"), 16),
    "m16n8k8.row.col.f32.f16.f16.f32": (np.dtype("f2"), 8),
    "m16n8k16.row.col.f32.bf16.bf16.f32": (BF16, 16),
    "m16n8k8.row.col.f32.bf16.bf16.f32": (BF16, 8),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (np.dtype("f4"), 8),
    "m16n8k4.row.col.f32.tf32.tf32.f32": (np.dtype("f4"), 4),
    "m16n8k32.row.col.f32.e4m3.e4m3.f32": (np.dtype(ml_dtypes.float8_e4m3fn), 32),
    "m16n8k32.row.col.f32.e5m2.e5m2.f32": (np.dtype(ml_dtypes.float8_e5m2), 32),
}


@pytest.mark.parametrize("form", FLOATS)
def test_a_product_of_floats(form: str) -> None:
    dtype, k = FLOATS[form]
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-16, 17, (rows, k)).astype("f4") / 8 for rows in (16, 8))
    c = rng.standard_normal((16, 8)).astype("f4")
    raw = [x.astype(dtype).view("u1") for x in (a, b)]
    d = launch(words(product(form, k * dtype.itemsize)), 1, 32, *raw, c, capability=(8, 9))[2]
    kept = [x.astype(dtype).astype("f8") for x in (a, b)]
    assert (d == (kept[0] @ kept[1].T + c).astype("f4")).all()


INTEGERS = {
    "m16n8k32.row.col.s32.s8.s8.s32": ("i1", "i1", 32),
    "m16n8k32.row.col.s32.u8.s8.s32": ("u1", "i1", 32),
    "m16n8k16.row.col.s32.s8.u8.s32": ("i1", "u1", 16),
}


@pytest.mark.parametrize("form", INTEGERS)
def test_a_product_of_bytes(form: str) -> None:
    left, right, k = INTEGERS[form]
    rng = np.random.default_rng(2)
    a, b = (rng.integers(0, 256, (rows, k)).astype("u1") for rows in (16, 8))
    c = rng.integers(-(2**31), 2**31, (16, 8)).astype("i4")
    d = launch(words(product(form, k)), 1, 32, a, b, c, capability=(8, 9))[2]
    exact = a.view(left).astype("i8") @ b.view(right).astype("i8").T + c
    assert (d == exact.astype("i4")).all()


def test_a_product_of_bytes_saturates_when_told() -> None:
    a, b = np.full((16, 32), 127, "i1"), np.full((8, 32), 127, "i1")
    c = np.full((16, 8), 2**31 - 5, "i4")
    form = "m16n8k32.row.col.satfinite.s32.s8.s8.s32"
    d = launch(words(product(form, 32)), 1, 32, a.view("u1"), b.view("u1"), c, capability=(8, 9))[2]
    assert (d == 2**31 - 1).all()


def test_tf32_ignores_the_low_bits() -> None:
    a = np.full((16, 8), 1 + 2**-11, "f4")
    b, c = np.ones((8, 8), "f4"), np.zeros((16, 8), "f4")
    text = words(product("m16n8k8.row.col.f32.tf32.tf32.f32", 32))
    assert (launch(text, 1, 32, a.view("u1"), b.view("u1"), c, capability=(8, 9))[2] == 8).all()


def test_a_product_may_be_kept_in_halves() -> None:
    text = product("m16n8k16.row.col.f16.f16.f16.f16", 32, 2)
    text = text.replace(
        "ACCUMULATORS", "ld.global.b32 %r30, [%rd5]; ld.global.b32 %r31, [%rd5+128];"
    )
    text = text.replace("%r7, 8, %rd2", "%r7, 2, %rd2")
    text = text.replace("STORES", "st.global.b32 [%rd5], %r30; st.global.b32 [%rd5+128], %r31;")
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(shape).astype("f2") for shape in ((16, 16), (8, 16), (16, 8)))
    d = launch(entry(text, 3), 1, 32, a.view("u1"), b.view("u1"), c)[2]
    assert (d == (a.astype("f8") @ b.astype("f8").T + c).astype("f2")).all()


def test_a_product_of_doubles() -> None:
    body = """
    shr.u32 %r1, %r0, 2; and.b32 %r2, %r0, 3; mad.lo.u32 %r3, %r1, 4, %r2; mad.wide.u32 %rd4, %r3, 8, %rd0;
    ld.global.f64 %d0, [%rd4]; mad.wide.u32 %rd4, %r3, 8, %rd1; ld.global.f64 %d1, [%rd4];
    mad.lo.u32 %r3, %r2, 2, 0; mad.lo.u32 %r3, %r1, 8, %r3; mad.wide.u32 %rd4, %r3, 8, %rd2;
    ld.global.v2.f64 {%d2,%d3}, [%rd4];
    mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d2,%d3}, {%d0}, {%d1}, {%d2,%d3};
    st.global.v2.f64 [%rd4], {%d2,%d3};
    """
    rng = np.random.default_rng(4)
    a, b, c = (rng.standard_normal(shape) for shape in ((8, 4), (8, 4), (8, 8)))
    assert np.allclose(launch(entry(body, 3), 1, 32, a, b, c)[2], a @ b.T + c, rtol=1e-15)


def test_a_matrix_is_loaded_transposed() -> None:
    body = f"""{SHARED} shl.b32 %r1, %r0, 2; add.u32 %r2, %r20, %r1; mad.wide.u32 %rd4, %r0, 4, %rd0;
    ld.global.u32 %r3, [%rd4]; st.shared.u32 [%r2], %r3; bar.sync 0; and.b32 %r4, %r0, 7;
    mad.lo.u32 %r4, %r4, 16, %r20; ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {{%r5}}, [%r4];
    mad.wide.u32 %rd4, %r0, 4, %rd1; st.global.u32 [%rd4], %r5;
    """
    x = np.arange(64, dtype="u2")
    y = launch(entry(body, 2), 1, 32, x, np.zeros(64, "u2"))[1]
    assert (y.reshape(8, 8) == x.reshape(8, 8).T).all()


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_what_is_stored_is_what_was_loaded(trans: str) -> None:
    body = f"""{SHARED}{fill(256)} mad.lo.u32 %r4, %r0, 16, %r20;
    ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r5,%r6,%r7,%r8}}, [%r4]; bar.sync 0;
    xor.b32 %r9, %r4, 0; stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%r9], {{%r7,%r8,%r5,%r6}}; bar.sync 0;
    ld.shared.v4.u32 {{%r10,%r11,%r12,%r13}}, [%r4]; mad.wide.u32 %rd4, %r0, 16, %rd2;
    st.global.v4.u32 [%rd4], {{%r10,%r11,%r12,%r13}};
    """
    x = np.arange(256, dtype="u2")
    text = entry(body, 3, target="sm_90")
    y = launch(text, 1, 32, x, np.zeros(128, "u2"), np.zeros(256, "u2"), capability=(9, 0))[2]
    assert (y.reshape(2, 128) == x.reshape(2, 128)[::-1]).all()


def test_a_matrix_is_transposed_in_registers() -> None:
    body = """
    mad.wide.u32 %rd4, %r0, 4, %rd0; ld.global.u32 %r1, [%rd4];
    movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r1; st.global.u32 [%rd4], %r1;
    """
    x = np.arange(64, dtype="u2")
    assert (launch(entry(body), 1, 32, x)[0].reshape(8, 8) == x.reshape(8, 8).T).all()
