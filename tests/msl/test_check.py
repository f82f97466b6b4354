"""What is wrong with the types and address spaces of a text is told by line."""

import re
from pathlib import Path

import pytest

from lamina.testing.msl import check

HERE = Path(__file__).parent
HEAD = """#include <metal_stdlib>
using namespace metal;
kernel void f(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
              constant uint2& n [[buffer(2)]], uint at [[thread_position_in_grid]]) {
"""
WRONG = {
    "threadgroup float* p = y;": r"line 5: error: .*'threadgroup float \*.*'device float \*",
    "device float* p = x;": r"line 5: error: cannot initialize .* with .*const device float",
    "y[at] = 1.0f;\n  x[at] = y[at];": r"line 6: error: read-only variable is not assignable",
    "n.x = 1;": r"line 5: error: .*constant|line 5: error: read-only",
    "float* p = y + at;": r"line 5: error: p has no address space",
    "threadgroup float t[n.x];": r"line 5: error: .*variable length array|line 5: error: .*constant",
    "if (at) { threadgroup float t[4]; y[at] = t[0]; }": r"line 5: error: .*outermost scope",
    "threadgroup float t = 1.0f;": r"line 5: error: 'threadgroup' variable cannot have an initializer",
    "simdgroup_half8x8 m;\n  simdgroup_load(m, x, 8);": r"line 6: error: no matching function for call to 'simdgroup_load'",
    "simdgroup_float8x8 a;\n  simdgroup_half8x8 b, c;\n  simdgroup_multiply_accumulate(c, a, a, b);": r"line 7: error: .*products",
    "simdgroup_matrix<float, 4, 8> m;": r"line 5: error: .*8 rows and 8 columns",
    "y[at] = simdgroup_sum(x[at]);": r"line 5: error: use of undeclared identifier 'simdgroup_sum'",
    "double d = 1.0;": r"line 5: error: .*double",
    "bfloat b = bfloat(x[at]);\n  b = x[at];": r"line 6: error: no viable overloaded '='",
    "float4 v = float4(x[at], 1.0f, 2.0f);": r"line 5: error: .*as many components as it has",
    "atomic_fetch_add_explicit(y, 1.0f, memory_order_relaxed);": r"line 5: error: no matching function",
    "y[at] = max(x[at], 1);": r"line 5: error: call to 'max' is ambiguous",
    "threadgroup_barrier(1);": r"line 5: error: no matching function|line 5: error: .*mem_flags",
    "half3 h = half3(1.0h);\n  y[at] = h.w;": r"line 6: error: vector component access exceeds type",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_is_told_with_its_line(wrong: str) -> None:
    pytest.importorskip("clang.cindex")
    told = "\n".join(map(str, check(f"{HEAD}  {wrong}\n}}\n")))
    assert re.search(WRONG[wrong], told), told


@pytest.mark.parametrize("name", ["kernels", "language"])
def test_nothing_is_wrong_with_what_runs(name: str) -> None:
    pytest.importorskip("clang.cindex")
    assert check((HERE / f"{name}.metal").read_text(encoding="utf-8")) == []
