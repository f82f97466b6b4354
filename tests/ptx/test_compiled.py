"""Kernels that LLVM's NVPTX compiled, run on ragged shapes."""

import compiled_kernels
import ml_dtypes
import numpy as np
import pytest
from launching import launch
from nvptx import ptx

BF16 = np.dtype(ml_dtypes.bfloat16)
THREAD = "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"


@pytest.mark.parametrize("n", [1, 31, 128, 300])
def test_softmax_by_shuffles_and_shared_memory(n: int) -> None:
    x = np.random.default_rng(1).standard_normal((3, n)).astype("f4")
    y = launch(ptx(compiled_kernels.softmax()), 3, 128, x, np.zeros_like(x), np.int32(n))[1]
    exact = np.exp(x.astype("f8"))
    assert np.allclose(y, exact / exact.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 32), (130, 70, 40), (1, 1, 8), (65, 128, 128)])
def test_a_pipelined_product_with_matrix_units(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((m, k)).astype(BF16), rng.standard_normal((n, k)).astype(BF16)
    grid = (-(-n // 64), -(-m // 64))
    sizes = [np.int32(extent) for extent in (m, n, k)]
    text = ptx(compiled_kernels.gemm())
    c = launch(
        text, grid, 128, a.view("u2"), b.view("u2"), np.zeros((m, n), "f4"), *sizes, shared=24576
    )[2]
    assert np.allclose(c, a.astype("f8") @ b.astype("f8").T, atol=1e-4)


def test_a_collatz_loop_diverges_and_ends() -> None:
    ir = (
        THREAD
        + """
define ptx_kernel void @k(ptr addrspace(1) %y) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %start = add i32 %t, 1
  br label %loop
loop:
  %x = phi i32 [%start, %entry], [%x2, %next]
  %n = phi i32 [0, %entry], [%n2, %next]
  %end = icmp eq i32 %x, 1
  br i1 %end, label %done, label %go
go:
  %odd = trunc i32 %x to i1
  br i1 %odd, label %up, label %down
up:
  %three = mul i32 %x, 3
  %more = add i32 %three, 1
  br label %next
down:
  %half = lshr i32 %x, 1
  br label %next
next:
  %x2 = phi i32 [%more, %up], [%half, %down]
  %n2 = add i32 %n, 1
  br label %loop
done:
  %p = getelementptr i32, ptr addrspace(1) %y, i32 %t
  store i32 %n, ptr addrspace(1) %p
  ret void
}
"""
    )

    def steps(x: int) -> int:
        return 0 if x == 1 else 1 + steps(3 * x + 1 if x & 1 else x // 2)

    y = launch(ptx(ir), 1, 100, np.zeros(100, "u4"))[0]
    assert y.tolist() == [steps(n + 1) for n in range(100)]


def test_atomics_build_a_histogram_in_shared_memory() -> None:
    ir = (
        THREAD
        + """
@bins = internal addrspace(3) global [16 x i32] undef, align 16
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %few = icmp ult i32 %t, 16
  %own = getelementptr i32, ptr addrspace(3) @bins, i32 %t
  br i1 %few, label %clear, label %count
clear:
  store i32 0, ptr addrspace(3) %own
  br label %count
count:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %t
  %v = load i32, ptr addrspace(1) %p
  %bin = getelementptr i32, ptr addrspace(3) @bins, i32 %v
  %old = atomicrmw add ptr addrspace(3) %bin, i32 1 monotonic
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br i1 %few, label %flush, label %done
flush:
  %n = load i32, ptr addrspace(3) %own
  %q = getelementptr i32, ptr addrspace(1) %y, i32 %t
  %before = atomicrmw add ptr addrspace(1) %q, i32 %n monotonic
  br label %done
done:
  ret void
}
"""
    )
    x = np.random.default_rng(3).integers(0, 16, 200).astype("u4")
    y = launch(ptx(ir), 1, 200, x, np.ones(16, "u4"))[1]
    assert (y == 1 + np.bincount(x, minlength=16)).all()


CASTS = {
    "fptosi float to i32": (
        "call i32 @llvm.fptosi.sat.i32.f32(float %v)",
        "float",
        "i32",
        "f4",
        "i4",
    ),
    "fptoui half to i8": ("call i8 @llvm.fptoui.sat.i8.f16(half %v)", "half", "i8", "f2", "u1"),
    "fptrunc float to half": ("fptrunc float %v to half", "float", "half", "f4", "f2"),
    "fptrunc float to bfloat": ("fptrunc float %v to bfloat", "float", "bfloat", "f4", BF16),
    "fpext half to float": ("fpext half %v to float", "half", "float", "f2", "f4"),
    "fpext bfloat to float": ("fpext bfloat %v to float", "bfloat", "float", BF16, "f4"),
    "fptrunc double to float": ("fptrunc double %v to float", "double", "float", "f8", "f4"),
    "sitofp i32 to float": ("sitofp i32 %v to float", "i32", "float", "i4", "f4"),
    "uitofp i64 to half": ("uitofp i64 %v to half", "i64", "half", "u8", "f2"),
    "rint": ("call float @llvm.roundeven.f32(float %v)", "float", "float", "f4", "f4"),
    "sqrt": ("call float @llvm.sqrt.f32(float %v)", "float", "float", "f4", "f4"),
}
SPECIAL = [
    0.0,
    -0.0,
    0.5,
    -1.5,
    2.5,
    255.7,
    3e9,
    -3e9,
    1e20,
    65519.0,
    65520.0,
    1e-7,
    1e-40,
    np.inf,
    -np.inf,
    np.nan,
]


@pytest.mark.parametrize("name", CASTS)
def test_a_conversion_agrees_with_numpy(name: str) -> None:
    text, source, result, before, after = CASTS[name]
    declared = "\n".join(
        f"declare {to} @llvm.{what}({of})"
        for what, to, of in (
            ("fptosi.sat.i32.f32", "i32", "float"),
            ("fptoui.sat.i8.f16", "i8", "half"),
            ("roundeven.f32", "float", "float"),
            ("sqrt.f32", "float", "float"),
        )
    )
    ir = f"""{THREAD}{declared}
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr {source}, ptr addrspace(1) %x, i32 %t
  %v = load {source}, ptr addrspace(1) %p
  %r = {text}
  %q = getelementptr {result}, ptr addrspace(1) %y, i32 %t
  store {result} %r, ptr addrspace(1) %q
  ret void
}}
"""
    with np.errstate(all="ignore"):
        integers = np.dtype(before).kind in "iu"
        x = np.array([0, 1, 7, 2**24 + 1, 2**31 - 1] if integers else SPECIAL).astype(before)
        wide = x.astype("f8")
        if np.dtype(after).kind in "iu":
            info = np.iinfo(after)
            wanted = np.nan_to_num(np.clip(np.trunc(wide), info.min, info.max)).astype(after)
        else:
            wide = {"rint": np.rint, "sqrt": np.sqrt}.get(name, lambda v: v)(wide)
            wanted = (wide.astype("f4") if after == BF16 else wide).astype(after)
    y = launch(ptx(ir), 1, len(x), x, np.zeros(len(x), after))[1]
    both = (y == wanted) | (np.isnan(y.astype("f8")) & np.isnan(wanted.astype("f8")))
    assert both.all(), (x[~both], y[~both], wanted[~both])


def test_packed_halves_of_vectors() -> None:
    ir = (
        THREAD
        + """
declare <8 x half> @llvm.fma.v8f16(<8 x half>, <8 x half>, <8 x half>)
define ptx_kernel void @k(ptr addrspace(1) noalias readonly align 16 %x, ptr addrspace(1) align 16 %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr <8 x half>, ptr addrspace(1) %x, i32 %t
  %v = load <8 x half>, ptr addrspace(1) %p, align 16
  %r = call <8 x half> @llvm.fma.v8f16(<8 x half> %v, <8 x half> %v, <8 x half> %v)
  %s = fadd <8 x half> %r, %v
  %q = getelementptr <8 x half>, ptr addrspace(1) %y, i32 %t
  store <8 x half> %s, ptr addrspace(1) %q, align 16
  ret void
}
"""
    )
    x = np.random.default_rng(4).standard_normal(320).astype("f2")
    y = launch(ptx(ir), 1, 40, x, np.zeros_like(x))[1]
    fused = (x.astype("f8") ** 2 + x).astype("f2")
    assert (y == (fused.astype("f4") + x).astype("f2")).all()
    assert "f16x2" in ptx(ir)
