// The language and its library, a value for each thing.
#include <metal_stdlib>
#include <metal_simdgroup>
using namespace metal;

constant float table[3] = {1.5f, 2.5f, 3.5f};
constant constexpr int shift = 3;
enum Kind : uint { first_kind, second_kind = 7 };
typedef vec<float, 4> quad;

template <typename T, int N>
T twice(T x) {
  return x * T(N);
}
static float exp(float x, thread int& calls) {
  ++calls;
  return metal::exp(x);
}
struct Pair {
  packed_float3 a;
  half b;
  float total() const { return a.x + a.y + a.z + float(b); }
};

kernel void vectors(device float* y [[buffer(0)]], constant packed_float3* x [[buffer(1)]]) {
  float4 v = float4(1, 2, 3, 4);
  float4 w = float4(v.xy, 10.0, 20.0);
  quad z = v.wzyx + w * 2;
  y[0] = z.x;  // 4 + 2
  y[1] = z[3];  // 1 + 40
  v.xz = v.zx;
  y[2] = v.x;
  v.yw += 0.5;
  y[3] = v.w;
  half3 h = half3(v.xyz);
  h *= 2;
  y[4] = h.y;
  int2 i = int2(7, -7) / 2;
  y[5] = i.y;
  uint4 u = uint4(1, 2, 3, 4) << 2;
  y[6] = u.a;
  bool4 small = v < 3.0;
  y[7] = float(all(small)) + 2 * float(any(small));
  y[8] = dot(float3(x[1]), float3(1, 1, 1));
  float3 s = select(float3(1), float3(2), bool3(true, false, true));
  y[9] = s.x * 100 + s.y * 10 + s.z;
  uchar4 bytes = as_type<uchar4>(0x04030201u);
  y[10] = bytes.z;
  y[11] = as_type<float>(0x40490fdb);
  y[12] = as_type<half2>(0x3c004000u).y;
  Pair pair = {packed_float3(1, 2, 3), 4.0h};
  y[13] = pair.total();
  y[14] = sizeof(float3) + 100 * sizeof(packed_float3) + 10000 * sizeof(Pair);
  float4 made = 1.0;
  made.rgb = float3(v.x, float2(5, 6));
  y[15] = made.b + made.a;
  y[16] = length(float2(3, 4)) + float(max(short2(1, 5), short2(3)).y);
}

kernel void scalars(device float* y [[buffer(0)]], device const uint* bits [[buffer(1)]]) {
  thread int calls = 0;
  y[0] = exp(1.0, calls) + calls;
  y[1] = twice<float, 3>(table[1]);
  y[2] = 1 << shift;
  y[3] = second_kind;
  half h = 1.0h / 3;
  y[4] = h * 3.0h;
  y[5] = h * 3.0f;
  bfloat b = bfloat(1.0 / 3);
  y[6] = float(b * bfloat(3));
  y[7] = float(bfloat(as_type<float>(bits[0])));
  y[8] = isnan(as_type<float>(bits[0])) ? 1 : 0;
  y[9] = max(as_type<float>(bits[0]), 2.0f);
  y[10] = clamp(7, 1, 5) + abs(-3) + popcount(255u) + clz(1u) + ctz(8u);
  y[11] = rint(2.5f) + round(2.5f) + fract(1.25f) + floor(-0.5f);
  y[12] = fma(2.0f, 3.0f, 4.0f) + precise::sqrt(16.0f) + fast::exp2(3.0f);
  y[13] = mulhi(0x80000000u, 6u) + rotate(1u, 31u) / 0x80000000u;
  y[14] = reverse_bits(1u) == 0x80000000u;
  y[15] = extract_bits(0xabcdu, 4, 8);
  y[16] = (ulong(1) << 40 >> 38) + sizeof(size_t);
  y[17] = numeric_limits<half>::max() == HALF_MAX && INFINITY > MAXFLOAT;
  y[18] = saturate(-1.0f) + sign(-3.0f) + copysign(2.0f, -1.0f) + pow(2.0f, 5.0f);
  y[19] = 0.1 == 0.1f;
}

kernel void lanes(device uint* y [[buffer(0)]], uint lane [[thread_index_in_simdgroup]],
                  uint width [[threads_per_simdgroup]], uint3 at [[thread_position_in_grid]],
                  ushort3 size [[threads_per_grid]], uint groups [[threadgroups_per_grid]]) {
  device uint* mine = y + at.x * 16;
  mine[0] = simd_sum(lane);
  mine[1] = simd_max(lane * 3 % 7);
  mine[2] = simd_min(lane + 5);
  mine[3] = simd_shuffle(lane, 31 - lane);
  mine[4] = simd_shuffle_xor(lane, 5);
  mine[5] = simd_shuffle_down(lane, 3);
  mine[6] = simd_shuffle_up(lane, 3);
  mine[7] = simd_broadcast(lane * lane, 6);
  mine[8] = uint(ulong(simd_ballot(lane % 2 == 1)));
  mine[9] = simd_all(lane < 32) + 2 * simd_any(lane == 40) + 4 * simd_any(lane == 4);
  mine[10] = simd_prefix_inclusive_sum(lane);
  mine[11] = simd_prefix_exclusive_sum(lane);
  mine[12] = simd_shuffle_rotate_up(lane, 1);
  mine[13] = simd_sum(float2(lane, 1)).y;
  mine[14] = width * 10000 + size.x * 10 + groups;
  mine[15] = simd_broadcast_first(lane + 9);
}

kernel void last_lanes(device uint* y [[buffer(0)]], uint at [[thread_position_in_grid]]) {
  y[at] = simd_sum(1u);
}

kernel void halves(device const half* x [[buffer(0)]], device half* y [[buffer(1)]],
                   uint at [[thread_position_in_grid]]) {
  y[at] = x[at] * x[at + 1] + x[at];
}

kernel void bfloats(device const bfloat* x [[buffer(0)]], device bfloat* y [[buffer(1)]],
                    uint at [[thread_position_in_grid]]) {
  y[at] = x[at] * x[at + 1] + x[at];
}

kernel void matrices(device const bfloat* x [[buffer(0)]], device bfloat* y [[buffer(1)]],
                     device float* z [[buffer(2)]]) {
  simdgroup_bfloat8x8 a, b;
  simdgroup_load(a, x, 8);
  simdgroup_load(b, x, 8, ulong2(0, 0), true);
  simdgroup_matrix<float, 8, 8> product, c(2.0f);
  simdgroup_multiply_accumulate(product, a, b, c);
  simdgroup_store(product, z, 16, ulong2(8, 0));
  simdgroup_multiply(b, a, make_diagonal_simdgroup_matrix<bfloat, 8, 8>(2));
  simdgroup_store(b, y, 8, 0, true);
}

kernel void atomics(device atomic_int* y [[buffer(0)]], device atomic_float* z [[buffer(1)]],
                    uint at [[thread_position_in_grid]]) {
  int i = int(at);
  atomic_fetch_add_explicit(&y[0], i, memory_order_relaxed);
  atomic_fetch_max_explicit(&y[1], i, memory_order_relaxed);
  atomic_fetch_min_explicit(&y[2], -i, memory_order_relaxed);
  atomic_fetch_or_explicit(&y[3], i, memory_order_relaxed);
  atomic_fetch_add_explicit(&z[0], 0.5f, memory_order_relaxed);
  int before = atomic_load_explicit(&y[4], memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&y[4], &before, before + 2, memory_order_relaxed,
                                                memory_order_relaxed)) {
  }
}
