"""The functions that kernels in Metal's language may call.

The language has no word for them, or leaves open what it does: fast arithmetic may drop NaN or
the sign of zero, conversions of what is out of range are anything, overflow is anything, and a
division by zero too. All of that is decided on bits and on unsigned numbers here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_TEXTS: Final[dict[str, str]] = {
    "compare_exchanged": """template <typename P>
int compare_exchanged(P at, int expected, int value) {
  int seen = expected;
  while (seen == expected && !atomic_compare_exchange_weak_explicit(
                                 at, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
  }
  return seen;
}""",
    "is_nan": """inline bool is_nan(float x) {
  return (as_type<uint>(x) & 0x7fffffffu) > 0x7f800000u;
}""",
    "max_f32": """inline float max_f32(float a, float b) {
  if (is_nan(a)) return a;
  if (is_nan(b)) return b;
  if (a == b) return as_type<float>(as_type<uint>(a) & as_type<uint>(b));
  return a > b ? a : b;
}""",
    "min_f32": """inline float min_f32(float a, float b) {
  if (is_nan(a)) return a;
  if (is_nan(b)) return b;
  if (a == b) return as_type<float>(as_type<uint>(a) | as_type<uint>(b));
  return a < b ? a : b;
}""",
    "copy_sign": """inline float copy_sign(float a, float b) {
  return as_type<float>((as_type<uint>(a) & 0x7fffffffu) | (as_type<uint>(b) & 0x80000000u));
}""",
    "negated": """inline float negated(float x) {
  return as_type<float>(as_type<uint>(x) ^ 0x80000000u);
}""",
    "magnitude": """inline float magnitude(float x) {
  return as_type<float>(as_type<uint>(x) & 0x7fffffffu);
}""",
    "to_bf16": """inline ushort to_bf16(float x) {
  uint u = as_type<uint>(x);
  return ushort(is_nan(x) ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}""",
    "from_bf16": """inline float from_bf16(ushort x) {
  return as_type<float>(uint(x) << 16);
}""",
    "round_bf16": "inline float round_bf16(float x) { return from_bf16(to_bf16(x)); }",
    "round_f16": "inline float round_f16(float x) { return float(half(x)); }",
    "fma_odd": """inline float fma_odd(float a, float b, float c) {
  float p = a * b;
  float s = p + c;
  float t = s - p;
  float lost = (p - (s - t)) + (c - t);
  uint u = as_type<uint>(s);
  if ((u & 0x7f800000u) == 0x7f800000u) return fma(a, b, c);
  if (lost == 0.0f || (u & 1u) != 0u) return s;
  return as_type<float>(((u >> 31) != 0u) == (lost < 0.0f) ? u + 1u : u - 1u);
}""",
    "to_int": """inline int to_int(float x) {
  float r = rint(x);
  if (is_nan(x)) return 0;
  if (r >= 2147483648.0f) return 0x7fffffff;
  return r < -2147483648.0f ? as_type<int>(0x80000000u) : int(r);
}""",
    "to_uint": """inline int to_uint(float x) {
  float r = rint(x);
  if (is_nan(x) || r < 0.0f) return 0;
  return as_type<int>(r >= 4294967296.0f ? 0xffffffffu : uint(r));
}""",
    "to_small": """inline int to_small(float x, float low, float high) {
  float r = rint(x);
  if (is_nan(x)) return 0;
  return int(r < low ? low : r > high ? high : r);
}""",
    "to_long": """inline long to_long(float x) {
  float r = rint(x);
  if (is_nan(x)) return 0;
  if (r >= 9223372036854775808.0f) return 0x7fffffffffffffffL;
  return r < -9223372036854775808.0f ? as_type<long>(0x8000000000000000UL) : long(r);
}""",
    "to_ulong": """inline long to_ulong(float x) {
  float r = rint(x);
  if (is_nan(x) || r < 0.0f) return 0;
  return as_type<long>(r >= 18446744073709551616.0f ? 0xffffffffffffffffUL : ulong(r));
}""",
    "to_index": """inline int to_index(long x) {
  return x > 0x7fffffffL ? 0x7fffffff : x < -0x7fffffffL ? as_type<int>(0x80000000u) : int(x);
}""",
    "bf16_of_ulong": """inline float bf16_of_ulong(ulong x) {
  int shift = x < 0x1000000UL ? 0 : 40 - int(clz(x));
  if (shift <= 0) return round_bf16(float(uint(x)));
  ulong kept = x >> shift;
  kept |= (kept << shift) != x ? 1UL : 0UL;
  return round_bf16(float(uint(kept)) * as_type<float>(uint(127 + shift) << 23));
}""",
    "bf16_of_long": """inline float bf16_of_long(long x) {
  return x < 0 ? -bf16_of_ulong(0UL - as_type<ulong>(x)) : bf16_of_ulong(as_type<ulong>(x));
}""",
    "shuffled": """inline float shuffled(float x, ushort mask) { return simd_shuffle_xor(x, mask); }
inline int shuffled(int x, ushort mask) { return simd_shuffle_xor(x, mask); }
inline bool shuffled(bool x, ushort mask) {
  return simd_shuffle_xor(x ? 1u : 0u, mask) != 0u;
}
inline long shuffled(long x, ushort mask) {
  uint low = simd_shuffle_xor(uint(as_type<ulong>(x) & 0xffffffffUL), mask);
  uint high = simd_shuffle_xor(uint(as_type<ulong>(x) >> 32), mask);
  return as_type<long>((ulong(high) << 32) | ulong(low));
}""",
    "multiplied": """template <typename T>
float4 multiplied(threadgroup T* left, threadgroup T* right, threadgroup float* sums, uint lane,
                  T a0, T a1, T a2, T a3, T a4, T a5, T a6, T a7, T b0, T b1, T b2, T b3,
                  float c0, float c1, float c2, float c3) {
  const uint at = lane / 4 * 16 + lane % 4 * 2;
  const uint sum = lane / 4 * 8 + lane % 4 * 2;
  left[at] = a0;
  left[at + 1] = a1;
  left[at + 128] = a2;
  left[at + 129] = a3;
  left[at + 8] = a4;
  left[at + 9] = a5;
  left[at + 136] = a6;
  left[at + 137] = a7;
  right[at] = b0;
  right[at + 1] = b1;
  right[at + 8] = b2;
  right[at + 9] = b3;
  sums[sum] = c0;
  sums[sum + 1] = c1;
  sums[sum + 64] = c2;
  sums[sum + 65] = c3;
  simdgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_matrix<T, 8, 8> rows, columns;
  simdgroup_matrix<float, 8, 8> upper, lower;
  simdgroup_load(upper, sums, 8);
  simdgroup_load(lower, sums + 64, 8);
  for (uint k = 0; k < 16; k += 8) {
    simdgroup_load(columns, right + k, 16, ulong2(0), true);
    simdgroup_load(rows, left + k, 16);
    simdgroup_multiply_accumulate(upper, rows, columns, upper);
    simdgroup_load(rows, left + 128 + k, 16);
    simdgroup_multiply_accumulate(lower, rows, columns, lower);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_store(upper, sums, 8);
  simdgroup_store(lower, sums + 64, 8);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  return float4(sums[sum], sums[sum + 1], sums[sum + 64], sums[sum + 65]);
}""",
}

_INTEGERS: Final[dict[str, str]] = {
    "div_s": """inline $S div_s($S a, $S b) {
  if (b == 0) return 0;
  return b == -1 ? $S($U(0) - $U(a)) : a / b;
}""",
    "rem_s": """inline $S rem_s($S a, $S b) { return b == 0 || b == -1 ? 0 : a % b; }""",
    "div_u": """inline $U div_u($U a, $U b) { return b == 0 ? 0 : a / b; }""",
    "rem_u": """inline $U rem_u($U a, $U b) { return b == 0 ? 0 : a % b; }""",
    "floor_div": """inline $S floor_div($S a, $S b) {
  $S q = div_s(a, b);
  return b != 0 && $S($U(q) * $U(b)) != a && (a < 0) != (b < 0) ? q - 1 : q;
}""",
    "ceil_div": """inline $S ceil_div($S a, $S b) {
  $S q = div_s(a, b);
  return b != 0 && $S($U(q) * $U(b)) != a && (a < 0) == (b < 0) ? q + 1 : q;
}""",
    "shift_left": """inline $S shift_left($S a, $S b, uint bits) {
  return $U(b) < bits ? $S($U(a) << $U(b)) : 0;
}""",
    "shift_right": """inline $S shift_right($S a, $S b, uint bits) {
  return $U(b) < bits ? a >> b : 0;
}""",
    "shift_right_u": """inline $U shift_right_u($U a, $S b, uint bits) {
  return $U(b) < bits ? a >> $U(b) : 0;
}""",
}
"""Of 32 and of 64 bits: `$S` is the type with a sign, `$U` the one without."""

_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "max_f32": ("is_nan",),
    "min_f32": ("is_nan",),
    "to_bf16": ("is_nan",),
    "round_bf16": ("to_bf16", "from_bf16"),
    "to_int": ("is_nan",),
    "to_uint": ("is_nan",),
    "to_small": ("is_nan",),
    "to_long": ("is_nan",),
    "to_ulong": ("is_nan",),
    "bf16_of_ulong": ("round_bf16",),
    "bf16_of_long": ("bf16_of_ulong",),
    "floor_div": ("div_s",),
    "ceil_div": ("div_s",),
}


def text_of(names: Iterable[str]) -> str:
    """Return the functions `names` and all that they call, callees first, each once."""
    found: dict[str, None] = {}

    def take(name: str) -> None:
        for needed in _NEEDS.get(name, ()):
            take(needed)
        found[name] = None

    for name in sorted(names):
        take(name)
    return "\n\n".join(_text(name) for name in found)


def _text(name: str) -> str:
    if name in _TEXTS:
        return _TEXTS[name]
    kinds = (("int", "uint"), ("long", "ulong"))
    return "\n".join(_INTEGERS[name].replace("$S", s).replace("$U", u) for s, u in kinds)
