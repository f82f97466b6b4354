"""Products of four warps on operands in shared memory, in every layout that a descriptor names."""

import ml_dtypes
import numpy as np
import pytest
from launching import entry, launch

from lamina.testing.ptx import KernelFault

BF16 = np.dtype(ml_dtypes.bfloat16)
WIDTHS = {"none": 1, "32 bytes": 2, "64 bytes": 4, "128 bytes": 8}
MODES = {1: 0, 2: 3, 4: 2, 8: 1}


def image(x: np.ndarray, width: int, *, across: bool) -> tuple[np.ndarray, int, int]:
    """Lay a matrix out as a descriptor wants it; return the bytes and both distances.

    Rows are M or N, columns are the 32 bytes that are contracted. With `across`, rows are
    contiguous in memory. Units of 16 bytes are numbered as CUTLASS numbers them.
    """
    size = x.itemsize
    rows, columns = x.shape
    laid = np.zeros(1 << 14, "u1")
    leading, stride = 128 * (rows // 8 if width == 1 else 1), 128 * width
    if across:
        leading, stride = (128 * (rows // 8), 128) if width == 1 else (128 * width * 2, 128 * width)
    for row in range(rows):
        for column in range(columns):
            if across:
                unit, inside = divmod(row * size, 16)
                major = unit // width * (stride if width == 1 else leading)
                minor = column // 8 * (leading if width == 1 else stride)
                at = major + minor + unit % width * 16 + column % 8 * 16 * width + inside
            else:
                unit, inside = divmod(column * size, 16)
                step = leading if width == 1 else 16
                at = row // 8 * stride + row % 8 * 16 * width + unit * step + inside
            line, unit, octet = at // 128, at // 16 % 8, at % 16
            at = line * 128 + (unit ^ line % width) * 16 + octet
            laid[at : at + size] = x[row, column : column + 1].view("u1")
    return laid, leading, stride


def descriptor(address: int, leading: int, stride: int, width: int) -> int:
    return address >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | MODES[width] << 62


def program(form: str, n: int, words: tuple[int, int], tail: str, middle: str = "") -> str:
    """D += A · Bᵀ by `wgmma`, the images of both operands having been copied to shared memory."""
    results = ",".join(f"%acc{i}" for i in range(n // 2))
    lines = [
        f".reg .f32 %acc<{n // 2}>; .shared .align 1024 .b8 a[16384]; .shared .align 1024 .b8 b[16384];"
    ]
    for name, pointer in (("a", "%rd0"), ("b", "%rd1")):
        lines.append(
            f"mov.u32 %r1, {name}; mad.lo.u32 %r1, %r0, 16, %r1; mad.wide.u32 %rd5, %r0, 16, {pointer};"
        )
        for at in range(0, 16384, 2048):
            lines.append(
                f"ld.global.v4.u32 {{%r2,%r3,%r4,%r5}}, [%rd5+{at}]; st.shared.v4.u32 [%r1+{at}], {{%r2,%r3,%r4,%r5}};"
            )
    lines.append("FENCE: fence.proxy.async; bar.sync 0; mov.pred %p1, 1;")
    at = "mad.lo.u32 %r6, %r6, 16, %r7; and.b32 %r8, %r0, 3; shl.b32 %r8, %r8, 1;"
    lines.append(f"shr.u32 %r6, %r0, 5; and.b32 %r7, %r0, 31; shr.u32 %r7, %r7, 2; {at}")
    lines.append(f"mad.lo.u32 %r9, %r6, {n}, %r8; mad.wide.u32 %rd6, %r9, 4, %rd2;")
    places = [4 * (8 * (i // 4) + i % 2 + n * 8 * (i // 2 % 2)) for i in range(n // 2)]
    lines += [f"ld.global.f32 %acc{i}, [%rd6+{at}];" for i, at in enumerate(places)]
    lines.append(f"mov.u64 %rd7, {words[0]}; mov.u64 %rd8, {words[1]}; wgmma.fence.sync.aligned;")
    lines.append(f"wgmma.mma_async.sync.aligned.{form} {{{results}}}, %rd7, %rd8, %p1{tail};")
    lines.append(f"wgmma.commit_group.sync.aligned; {middle} wgmma.wait_group.sync.aligned 0;")
    lines += [f"st.global.f32 [%rd6+{at}], %acc{i};" for i, at in enumerate(places)]
    return entry("\n".join(lines), 3, target="sm_90a")


def run(text: str, *arrays: np.ndarray) -> np.ndarray:
    return launch(text, 1, 128, *arrays, capability=(9, 0))[2]


@pytest.mark.parametrize("across", [False, True], ids=["along", "across"])
@pytest.mark.parametrize("layout", WIDTHS)
def test_a_product_in_bf16(layout: str, across: bool) -> None:
    width, n = WIDTHS[layout], 64
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((64, 16)).astype(BF16), rng.standard_normal((n, 16)).astype(BF16)
    c = rng.standard_normal((64, n)).astype("f4")
    (laid_a, *far_a), (laid_b, *far_b) = (image(x, width, across=across) for x in (a, b))
    words = (descriptor(0, *far_a, width), descriptor(17408, *far_b, width))
    turned = int(across)
    text = program(f"m64n{n}k16.f32.bf16.bf16", n, words, f", 1, 1, {turned}, {turned}")
    exact = a.astype("f8") @ b.astype("f8").T + c
    assert np.allclose(run(text, laid_a, laid_b, c), exact, atol=1e-5)


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        ("m64n16k16.f32.f16.f16", np.dtype("f2")),
        ("m64n8k8.f32.tf32.tf32", np.dtype("f4")),
        ("m64n24k32.f32.e4m3.e4m3", np.dtype(ml_dtypes.float8_e4m3fn)),
    ],
)
def test_a_product_of_other_floats(form: str, dtype: np.dtype) -> None:
    n, k = int(form[4 : form.index("k")]), 32 // dtype.itemsize
    rng = np.random.default_rng(2)
    a, b = ((rng.integers(-8, 9, (rows, k)) / 4).astype(dtype) for rows in (64, n))
    (laid_a, *far_a), (laid_b, *far_b) = (image(x, 8, across=False) for x in (a, b))
    words = (descriptor(0, *far_a, 8), descriptor(17408, *far_b, 8))
    tail = ", 1, -1, 0, 0" if dtype == np.dtype("f2") else ", 1, -1"
    d = run(program(form, n, words, tail), laid_a, laid_b, np.ones((64, n), "f4"))
    assert (d == 1 - a.astype("f4") @ b.astype("f4").T).all()


def ones(middle: str = "", change: tuple[str, str] = ("", "")) -> np.ndarray:
    x = np.ones((64, 16), BF16)
    laid, leading, stride = image(x, 8, across=False)
    words = (descriptor(0, leading, stride, 8), descriptor(17408, leading, stride, 8))
    text = program("m64n64k16.f32.bf16.bf16", 64, words, ", 1, 1, 0, 0", middle)
    return run(text.replace(*change), laid, laid, np.zeros((64, 64), "f4"))


def test_a_second_product_adds_to_the_first() -> None:
    results = ",".join(f"%acc{i}" for i in range(32))
    again = f"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{results}}}, %rd7, %rd8, %p1, 1, 1, 0, 0; wgmma.commit_group.sync.aligned;"
    assert (ones(again) == 32).all()


def test_without_the_scale_of_d_it_begins_anew() -> None:
    assert (ones(change=("mov.pred %p1, 1", "mov.pred %p1, 0")) == 16).all()


def test_results_cannot_be_read_before_they_are_waited_for() -> None:
    assert np.isnan(ones(change=("wait_group.sync.aligned 0", "wait_group.sync.aligned 1"))).all()


def test_operands_cannot_be_overwritten_before_the_product_is_waited_for() -> None:
    with pytest.raises(KernelFault, match="was written while a product was still to read it"):
        ones("setp.eq.u32 %p2, %r0, 0; @%p2 st.shared.u32 [a], %r0;")


def test_what_threads_wrote_needs_a_fence_before_a_product() -> None:
    with pytest.raises(KernelFault, match=r"no fence\.proxy\.async") as caught:
        ones(change=("fence.proxy.async;", ""))
    assert caught.value.kind == "race"


def test_what_threads_wrote_needs_a_barrier_before_a_product() -> None:
    with pytest.raises(KernelFault, match="no barrier since"):
        ones(change=("bar.sync 0;", ""))


def test_a_warpgroup_has_to_be_whole() -> None:
    with pytest.raises(KernelFault, match="all 128 threads of a warpgroup"):
        ones(change=("wgmma.fence.sync.aligned;", "setp.eq.u32 %p3, %r0, 5; @%p3 ret;"))
