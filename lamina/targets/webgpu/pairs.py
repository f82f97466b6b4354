"""The functions of 64-bit integers, which are two halves: x is the lower one, y the upper one."""

from __future__ import annotations

from typing import Final

TEXTS: Final[dict[str, str]] = {
    "widened": """fn widened(x: i32) -> vec2<u32> {
  return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u));
}""",
    "index_of": """fn index_of(a: vec2<u32>) -> i32 {
  let low = bitcast<i32>(a.x);
  let most = select(2147483647i, bitcast<i32>(0x80000000u), bitcast<i32>(a.y) < 0i);
  return select(most, low, bitcast<i32>(a.y) == (low >> 31u));
}""",
    "add_i64": """fn add_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}""",
    "sub_i64": """fn sub_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}""",
    "mul_i64": """fn mul_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let al = a.x & 0xffffu;
  let ah = a.x >> 16u;
  let bl = b.x & 0xffffu;
  let bh = b.x >> 16u;
  let low = al * bl;
  let middle = ah * bl + (low >> 16u);
  let other = al * bh + (middle & 0xffffu);
  let high = ah * bh + (middle >> 16u) + (other >> 16u);
  return vec2<u32>(a.x * b.x, high + a.x * b.y + a.y * b.x);
}""",
    "below_u64": """fn below_u64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.y < b.y || (a.y == b.y && a.x < b.x);
}""",
    "below_i64": """fn below_i64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return bitcast<i32>(a.y) < bitcast<i32>(b.y) || (a.y == b.y && a.x < b.x);
}""",
    "size_i64": """fn size_i64(a: vec2<u32>) -> vec2<u32> {
  return select(a, sub_i64(vec2<u32>(), a), bitcast<i32>(a.y) < 0i);
}""",
    "divided": """fn divided(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
  var q = vec2<u32>();
  var r = vec2<u32>();
  for (var n = 0u; n < 64u; n += 1u) {
    let bit = select(a.x >> (63u - n), a.y >> ((31u - n) & 31u), n < 32u) & 1u;
    let over = (r.y >> 31u) != 0u;
    r = vec2<u32>((r.x << 1u) | bit, (r.y << 1u) | (r.x >> 31u));
    let fits = over || !below_u64(r, b);
    r = select(r, sub_i64(r, b), fits);
    q = vec2<u32>((q.x << 1u) | select(0u, 1u, fits), (q.y << 1u) | (q.x >> 31u));
  }
  return select(vec4<u32>(q, r), vec4<u32>(), all(b == vec2<u32>()));
}""",
    "div_u64": """fn div_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return divided(a, b).xy;
}""",
    "rem_u64": """fn rem_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return divided(a, b).zw;
}""",
    "div_i64": """fn div_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let q = divided(size_i64(a), size_i64(b)).xy;
  return select(q, sub_i64(vec2<u32>(), q), ((a.y ^ b.y) >> 31u) != 0u);
}""",
    "rem_i64": """fn rem_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let r = divided(size_i64(a), size_i64(b)).zw;
  return select(r, sub_i64(vec2<u32>(), r), (a.y >> 31u) != 0u);
}""",
    "inexact_i64": """fn inexact_i64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return any(rem_i64(a, b) != vec2<u32>());
}""",
    "floor_div_i64": """fn floor_div_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let below = inexact_i64(a, b) && ((a.y ^ b.y) >> 31u) != 0u;
  return sub_i64(div_i64(a, b), vec2<u32>(select(0u, 1u, below), 0u));
}""",
    "ceil_div_i64": """fn ceil_div_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let above = inexact_i64(a, b) && ((a.y ^ b.y) >> 31u) == 0u;
  return add_i64(div_i64(a, b), vec2<u32>(select(0u, 1u, above), 0u));
}""",
    "left_u64": """fn left_u64(a: vec2<u32>, n: u32) -> vec2<u32> {
  let s = n & 31u;
  let carried = select(a.x >> (32u - s), 0u, s == 0u);
  let near = vec2<u32>(a.x << s, (a.y << s) | carried);
  return select(near, vec2<u32>(0u, a.x << s), n > 31u);
}""",
    "right_u64": """fn right_u64(a: vec2<u32>, n: u32) -> vec2<u32> {
  let s = n & 31u;
  let carried = select(a.y << (32u - s), 0u, s == 0u);
  let near = vec2<u32>((a.x >> s) | carried, a.y >> s);
  return select(near, vec2<u32>(a.y >> s, 0u), n > 31u);
}""",
    "shift_left_i64": """fn shift_left_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(vec2<u32>(), left_u64(a, b.x & 63u), b.y == 0u && b.x < 64u);
}""",
    "shift_right_u64": """fn shift_right_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(vec2<u32>(), right_u64(a, b.x & 63u), b.y == 0u && b.x < 64u);
}""",
    "shift_right_i64": """fn shift_right_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let signs = vec2<u32>(select(0u, 0xffffffffu, bitcast<i32>(a.y) < 0i));
  return select(vec2<u32>(), right_u64(a ^ signs, b.x & 63u) ^ signs, b.y == 0u && b.x < 64u);
}""",
    "scaled": """fn scaled(a: vec2<u32>) -> vec2<f32> {
  let shift = 32u - countLeadingZeros(a.y);
  let kept = right_u64(a, shift).x;
  let lost = any(left_u64(vec2<u32>(kept, 0u), shift) != a);
  let power = bitcast<f32>((127u + shift) << 23u);
  return vec2<f32>(bitcast<f32>(kept | select(0u, 1u, lost)), power);
}""",
    "f32_of_u64": """fn f32_of_u64(a: vec2<u32>) -> f32 {
  let parts = scaled(a);
  return f32(bitcast<u32>(parts.x)) * parts.y;
}""",
    "f32_of_i64": """fn f32_of_i64(a: vec2<u32>) -> f32 {
  let size = f32_of_u64(size_i64(a));
  return select(size, -size, bitcast<i32>(a.y) < 0i);
}""",
    "bf16_of_u64": """fn bf16_of_u64(a: vec2<u32>) -> f32 {
  let parts = scaled(a);
  let kept = bitcast<u32>(parts.x);
  return round_bf16(select(f32(kept), sticky_u32(kept), kept >= 0x1000000u) * parts.y);
}""",
    "bf16_of_i64": """fn bf16_of_i64(a: vec2<u32>) -> f32 {
  let size = bf16_of_u64(size_i64(a));
  return select(size, -size, bitcast<i32>(a.y) < 0i);
}""",
    "whole": """fn whole(x: f32) -> vec2<u32> {
  let u = bitcast<u32>(x);
  let e = (u >> 23u) & 0xffu;
  let m = vec2<u32>((u & 0x7fffffu) | 0x800000u, 0u);
  let large = left_u64(m, min(e - 150u, 63u));
  let small = vec2<u32>(m.x >> min(150u - e, 31u), 0u);
  return select(small, large, e >= 150u);
}""",
    "to_i64": """fn to_i64(x: f32) -> vec2<u32> {
  let r = round(x);
  let size = whole(r);
  let kept = select(size, sub_i64(vec2<u32>(), size), r < 0.0f);
  let low = select(kept, vec2<u32>(0u, 0x80000000u), r < -9223372036854775808.0f);
  let both = select(low, vec2<u32>(0xffffffffu, 0x7fffffffu), r >= 9223372036854775808.0f);
  return select(both, vec2<u32>(), is_nan(x));
}""",
    "to_u64": """fn to_u64(x: f32) -> vec2<u32> {
  let r = round(x);
  let both = select(whole(r), vec2<u32>(0xffffffffu), r >= 18446744073709551616.0f);
  return select(both, vec2<u32>(), is_nan(x) || r < 1.0f);
}""",
}

NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "size_i64": ("sub_i64",),
    "divided": ("below_u64", "sub_i64"),
    "div_u64": ("divided",),
    "rem_u64": ("divided",),
    "div_i64": ("divided", "size_i64"),
    "rem_i64": ("divided", "size_i64"),
    "inexact_i64": ("rem_i64",),
    "floor_div_i64": ("inexact_i64", "div_i64"),
    "ceil_div_i64": ("inexact_i64", "div_i64", "add_i64"),
    "shift_left_i64": ("left_u64",),
    "shift_right_u64": ("right_u64",),
    "shift_right_i64": ("right_u64",),
    "scaled": ("left_u64", "right_u64"),
    "f32_of_u64": ("scaled",),
    "f32_of_i64": ("f32_of_u64", "size_i64"),
    "bf16_of_u64": ("scaled", "sticky_u32", "round_bf16"),
    "bf16_of_i64": ("bf16_of_u64", "size_i64"),
    "whole": ("left_u64",),
    "to_i64": ("whole", "sub_i64", "is_nan"),
    "to_u64": ("whole", "is_nan"),
}
