"""The functions that kernels in WGSL may call: what the language has no word for, or gets wrong.

Comparisons with NaN may be anything but false, maxima may drop it, and conversions of what is out
of range are anything: all of that is decided on bits here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lamina.targets.webgpu import pairs
from lamina.targets.webgpu.subgroups import exchange_text

OPAQUE: Final = "opaque"
"""Hides where a float comes from: sums and products are rewritten as if they were of reals."""

_TEXTS: Final[dict[str, str]] = {
    **pairs.TEXTS,
    OPAQUE: """fn opaque(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ bitcast<u32>(words.w[0].x));
}""",
    "from_bits": "fn from_bits(bits: u32) -> f32 { return bitcast<f32>(bits); }",
    "is_nan": """fn is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}""",
    "max_f32": """fn max_f32(a: f32, b: f32) -> f32 {
  let equal = bitcast<f32>(bitcast<u32>(a) & bitcast<u32>(b));
  let larger = select(select(b, a, a > b), equal, a == b);
  return select(select(larger, b, is_nan(b)), a, is_nan(a));
}""",
    "min_f32": """fn min_f32(a: f32, b: f32) -> f32 {
  let equal = bitcast<f32>(bitcast<u32>(a) | bitcast<u32>(b));
  let smaller = select(select(b, a, a < b), equal, a == b);
  return select(select(smaller, b, is_nan(b)), a, is_nan(a));
}""",
    "copy_sign": """fn copy_sign(a: f32, b: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(a) & 0x7fffffffu) | (bitcast<u32>(b) & 0x80000000u));
}""",
    "to_f16": """fn to_f16(x: f32) -> u32 {
  let u = bitcast<u32>(x);
  let sign = (u >> 16u) & 0x8000u;
  let a = u & 0x7fffffffu;
  if (a > 0x7f800000u) { return sign | 0x7e00u | ((a >> 13u) & 0x1ffu); }
  if (a >= 0x477ff000u) { return sign | 0x7c00u; }
  if (a >= 0x38800000u) {
    let r = a - 0x38000000u;
    return sign | ((r + 0xfffu + ((r >> 13u) & 1u)) >> 13u);
  }
  if (a < 0x33000000u) { return sign; }
  let m = (a & 0x7fffffu) | 0x800000u;
  let shift = 126u - (a >> 23u);
  return sign | ((m + (1u << (shift - 1u)) - 1u + ((m >> shift) & 1u)) >> shift);
}""",
    "from_f16": """fn from_f16(h: u32) -> f32 {
  let sign = (h & 0x8000u) << 16u;
  let e = (h >> 10u) & 31u;
  let m = h & 0x3ffu;
  let tiny = bitcast<u32>(f32(m) * 5.9604644775390625e-8f);
  let normal = select((e + 112u) << 23u, 0x7f800000u, e == 31u) | (m << 13u);
  return bitcast<f32>(sign | select(normal, tiny, e == 0u));
}""",
    "round_f16": "fn round_f16(x: f32) -> f32 { return from_f16(to_f16(x)); }",
    "to_bf16": """fn to_bf16(x: f32) -> u32 {
  let u = bitcast<u32>(x);
  return select((u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u, (u >> 16u) | 0x40u, is_nan(x));
}""",
    "from_bf16": "fn from_bf16(h: u32) -> f32 { return bitcast<f32>(h << 16u); }",
    "round_bf16": "fn round_bf16(x: f32) -> f32 { return from_bf16(to_bf16(x)); }",
    "to_i32": """fn to_i32(x: f32) -> i32 {
  let r = round(x);
  let kept = i32(select(r, 0.0f, is_nan(x) || r >= 2147483648.0f || r < -2147483648.0f));
  let low = select(kept, bitcast<i32>(0x80000000u), r < -2147483648.0f);
  return select(low, 2147483647i, r >= 2147483648.0f);
}""",
    "to_u32": """fn to_u32(x: f32) -> i32 {
  let r = round(x);
  let kept = u32(select(r, 0.0f, is_nan(x) || r >= 4294967296.0f || r < 0.0f));
  return bitcast<i32>(select(kept, 0xffffffffu, r >= 4294967296.0f));
}""",
    "to_small": """fn to_small(x: f32, low: f32, high: f32) -> i32 {
  return i32(select(clamp(round(x), low, high), 0.0f, is_nan(x)));
}""",
    "sticky_u32": """fn sticky_u32(x: u32) -> f32 {
  return f32((x & 0xffffff00u) | select(0u, 0x100u, (x & 0xffu) != 0u));
}""",
    "to_bf16_i32": """fn to_bf16_i32(x: i32) -> f32 {
  let size = select(bitcast<u32>(x), 0u - bitcast<u32>(x), x < 0i);
  let number = select(f32(size), sticky_u32(size), size >= 0x1000000u);
  return round_bf16(select(number, -number, x < 0i));
}""",
    "to_bf16_u32": """fn to_bf16_u32(x: u32) -> f32 {
  return round_bf16(select(f32(x), sticky_u32(x), x >= 0x1000000u));
}""",
    "div_s": """fn div_s(a: i32, b: i32) -> i32 {
  let q = a / select(b, 1i, b == 0i || b == -1i);
  return select(select(q, 0i - a, b == -1i), 0i, b == 0i);
}""",
    "rem_s": """fn rem_s(a: i32, b: i32) -> i32 {
  let plain = b != 0i && b != -1i;
  return select(0i, a % select(1i, b, plain), plain);
}""",
    "div_u": """fn div_u(a: u32, b: u32) -> u32 {
  return select(a / select(b, 1u, b == 0u), 0u, b == 0u);
}""",
    "rem_u": """fn rem_u(a: u32, b: u32) -> u32 {
  return select(a % select(b, 1u, b == 0u), 0u, b == 0u);
}""",
    "floor_div": """fn floor_div(a: i32, b: i32) -> i32 {
  let q = div_s(a, b);
  return q - select(0i, 1i, b != 0i && q * b != a && (a < 0i) != (b < 0i));
}""",
    "ceil_div": """fn ceil_div(a: i32, b: i32) -> i32 {
  let q = div_s(a, b);
  return q + select(0i, 1i, b != 0i && q * b != a && (a < 0i) == (b < 0i));
}""",
    "shift_left": """fn shift_left(a: i32, b: i32, bits: u32) -> i32 {
  return select(0i, a << (bitcast<u32>(b) & 31u), bitcast<u32>(b) < bits);
}""",
    "shift_right": """fn shift_right(a: i32, b: i32, bits: u32) -> i32 {
  return select(0i, a >> (bitcast<u32>(b) & 31u), bitcast<u32>(b) < bits);
}""",
    "shift_right_u": """fn shift_right_u(a: u32, b: i32, bits: u32) -> u32 {
  return select(0u, a >> (bitcast<u32>(b) & 31u), bitcast<u32>(b) < bits);
}""",
}

_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    **pairs.NEEDS,
    "max_f32": ("is_nan",),
    "min_f32": ("is_nan",),
    "round_f16": ("to_f16", "from_f16"),
    "to_bf16": ("is_nan",),
    "round_bf16": ("to_bf16", "from_bf16"),
    "to_i32": ("is_nan",),
    "to_u32": ("is_nan",),
    "to_small": ("is_nan",),
    "to_bf16_i32": ("sticky_u32", "round_bf16"),
    "to_bf16_u32": ("sticky_u32", "round_bf16"),
    "floor_div": ("div_s",),
    "ceil_div": ("div_s",),
}


def with_needed(names: Iterable[str]) -> tuple[str, ...]:
    """Return the functions `names` and all that they call, callees first, each once."""
    found: dict[str, None] = {}

    def take(name: str) -> None:
        for needed in _NEEDS.get(name, ()):
            take(needed)
        found[name] = None

    for name in sorted(names):
        take(name)
    return tuple(found)


def text_of(name: str) -> str:
    """Return the text of a function."""
    return _TEXTS[name]


@dataclass(frozen=True)
class Ability:
    """What a device does by itself: exchange values in subgroups, round `a*b + c` once."""

    subgroups: bool = True
    fused: bool = True


EXACT: Final = "fma_exact"
"""A product and sum that have to be rounded once, for what is left is what was rounded off."""

_EXACT_TEXT: Final = """fn fma_exact(a: f32, b: f32, c: f32) -> f32 {
  let p = opaque(a * b);
  let ah = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
  let bh = bitcast<f32>(bitcast<u32>(b) & 0xfffff000u);
  let al = opaque(a - ah);
  let bl = opaque(b - bh);
  let lost = opaque(opaque(opaque(ah * bh) - p) + opaque(ah * bl)) + opaque(al * bh);
  let s = opaque(p + c);
  let t = opaque(s - p);
  let rest = opaque(p - opaque(s - t)) + opaque(c - t);
  let y = s + opaque(opaque(rest) + opaque(opaque(lost) + opaque(al * bl)));
  return select(fma(a, b, c), y, abs(y) < 3.0e38f);
}"""


def varied_text(name: str, threads: int, ability: Ability) -> str:
    """Return a function whose text depends on the device: `fma_exact`, or what exchanges values."""
    if name == EXACT:
        plain = "fn fma_exact(a: f32, b: f32, c: f32) -> f32 { return fma(a, b, c); }"
        return plain if ability.fused else _EXACT_TEXT
    return exchange_text(name, threads, subgroups=ability.subgroups)
