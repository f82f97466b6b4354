// Kernels that do what they should.
#include <metal_stdlib>
using namespace metal;

struct Sizes {
  uint m, n, k;
};

// y[row] = sum(x[row, :]) for rows of n elements, one threadgroup a row pair.
kernel void row_sums(device const float* x [[buffer(0)]],
                     device float* y [[buffer(1)]],
                     constant uint& n [[buffer(2)]],
                     uint group [[threadgroup_position_in_grid]],
                     uint thread_index [[thread_index_in_threadgroup]],
                     uint threads [[threads_per_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]],
                     uint simdgroup [[simdgroup_index_in_threadgroup]],
                     uint simdgroups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  for (uint row = 2 * group; row < 2 * group + 2; ++row) {
    float sum = 0.0f;
    for (uint i = thread_index; i < n; i += threads) sum += x[row * n + i];
    sum = simd_sum(sum);
    if (lane == 0) partial[simdgroup] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simdgroup == 0) {
      float all = simd_sum(lane < simdgroups ? partial[lane] : 0.0f);
      if (lane == 0) y[row] = all;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// y = softmax(x) along rows of n elements in bfloat, one threadgroup a row.
[[max_total_threads_per_threadgroup(256)]]
kernel void softmax(const device bfloat *x [[buffer(0)]], device bfloat *y [[buffer(1)]],
                    constant uint &n [[buffer(2)]],
                    threadgroup float *row [[threadgroup(0)]],
                    ushort group [[threadgroup_position_in_grid]],
                    ushort index [[thread_position_in_threadgroup]],
                    ushort threads [[threads_per_threadgroup]],
                    ushort lane [[thread_index_in_simdgroup]],
                    ushort simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup float highest[32], sums[32];
  float top = -INFINITY;
  for (uint i = index; i < n; i += threads) {
    row[i] = float(x[group * n + i]);
    top = max(top, row[i]);
  }
  top = simd_max(top);
  if (lane == 0) highest[simdgroup] = top;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = 0; i < uint(threads) / 32; ++i) top = max(top, highest[i]);
  float sum = 0.0f;
  for (uint i = index; i < n; i += threads) {
    row[i] = exp(row[i] - top);
    sum += row[i];
  }
  sum = simd_sum(sum);
  if (lane == 0) sums[simdgroup] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float all = 0.0f;
  for (uint i = 0; i < uint(threads) / 32; ++i) all += sums[i];
  for (uint i = index; i < n; i += threads) y[group * n + i] = bfloat(row[i] / all);
}

// c = a b for a of m by k and b of k by n in half, tiles of 32 by 32 by 16, four simdgroups.
kernel void matmul(device const half* a [[buffer(0)]],
                   device const half* b [[buffer(1)]],
                   device float* c [[buffer(2)]],
                   constant Sizes& size [[buffer(3)]],
                   uint2 group [[threadgroup_position_in_grid]],
                   uint index [[thread_index_in_threadgroup]],
                   uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup half a_tile[32 * 16];
  threadgroup half b_tile[16][32];
  threadgroup float c_tile[32 * 32];
  const uint top = group.y * 32, left = group.x * 32;
  const uint sub_row = (simdgroup / 2) * 16, sub_column = (simdgroup % 2) * 16;
  simdgroup_float8x8 sums[2][2];
  for (uint i = 0; i < 2; ++i)
    for (uint j = 0; j < 2; ++j) sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  for (uint step = 0; step < size.k; step += 16) {
    for (uint i = index; i < 32 * 16; i += 128) {
      uint row = top + i / 16, column = step + i % 16;
      a_tile[i] = row < size.m && column < size.k ? a[row * size.k + column] : 0.0h;
    }
    for (uint i = index; i < 16 * 32; i += 128) {
      uint row = step + i / 32, column = left + i % 32;
      b_tile[i / 32][i % 32] = row < size.k && column < size.n ? b[row * size.n + column] : 0.0h;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < 16; k += 8) {
      simdgroup_half8x8 x[2], y[2];
      for (uint i = 0; i < 2; ++i) {
        simdgroup_load(x[i], a_tile + (sub_row + 8 * i) * 16 + k, 16);
        simdgroup_load(y[i], &b_tile[0][0], 32, ulong2(sub_column + 8 * i, k));
      }
      for (uint i = 0; i < 2; ++i)
        for (uint j = 0; j < 2; ++j)
          simdgroup_multiply_accumulate(sums[i][j], x[i], y[j], sums[i][j]);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (uint i = 0; i < 2; ++i)
    for (uint j = 0; j < 2; ++j)
      simdgroup_store(sums[i][j], c_tile + (sub_row + 8 * i) * 32 + sub_column + 8 * j, 32);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = index; i < 32 * 32; i += 128) {
    uint row = top + i / 32, column = left + i % 32;
    if (row < size.m && column < size.n) c[row * size.n + column] = c_tile[i];
  }
}

struct Block {
  half scale;
  uchar packed[16];
};

// y[row] = w[row, :] x for w in blocks of 32 weights of 4 bits, one simdgroup a row.
kernel void matvec_4bit(device const Block* w [[buffer(0)]],
                        device const float* x [[buffer(1)]],
                        device float* y [[buffer(2)]],
                        constant uint& blocks [[buffer(3)]],
                        uint row [[threadgroup_position_in_grid]],
                        uint lane [[thread_index_in_simdgroup]]) {
  float sum = 0.0f;
  for (uint i = 0; i < blocks; ++i) {
    device const Block& block = w[row * blocks + i];
    uint packed = block.packed[lane % 16];
    int weight = int(lane < 16 ? packed & 15 : packed >> 4) - 8;
    sum = fma(float(block.scale) * float(weight), x[32 * i + lane], sum);
  }
  sum = simd_sum(sum);
  if (simd_is_first()) y[row] = sum;
}

// counts[value] += 1 for each value below 16, first in the threadgroup.
kernel void histogram(device const uchar4* values [[buffer(0)]],
                      device atomic_uint* counts [[buffer(1)]],
                      uint at [[thread_position_in_grid]],
                      uint index [[thread_position_in_threadgroup]]) {
  threadgroup atomic_uint near[16];
  if (index < 16) atomic_store_explicit(&near[index], 0, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uchar4 four = values[at];
  for (int i = 0; i < 4; ++i) atomic_fetch_add_explicit(&near[four[i]], 1, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (index < 16)
    atomic_fetch_add_explicit(&counts[index],
                              atomic_load_explicit(&near[index], memory_order_relaxed),
                              memory_order_relaxed);
}

// y = x transposed, in tiles of 16 by 16.
kernel void transpose(device const float* x [[buffer(0)]],
                      device float* y [[buffer(1)]],
                      constant Sizes& size [[buffer(2)]],
                      uint2 group [[threadgroup_position_in_grid]],
                      uint2 thread_at [[thread_position_in_threadgroup]]) {
  threadgroup float tile[16][17];
  uint row = group.y * 16 + thread_at.y, column = group.x * 16 + thread_at.x;
  if (row < size.m && column < size.n) tile[thread_at.y][thread_at.x] = x[row * size.n + column];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  row = group.x * 16 + thread_at.y;
  column = group.y * 16 + thread_at.x;
  if (row < size.n && column < size.m) y[row * size.m + column] = tile[thread_at.x][thread_at.y];
}

// y = x with the lanes of each simdgroup the other way round, by way of memory, twice over.
kernel void turn_lanes(device const float* x [[buffer(0)]],
                       device float* y [[buffer(1)]],
                       uint at [[thread_position_in_grid]],
                       uint index [[thread_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float held[64];
  held[index] = x[at];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  float other = held[index - lane + 31 - lane];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  held[index] = 2.0f * other;
  simdgroup_barrier(mem_flags::mem_threadgroup);
  y[at] = held[index - lane + (lane + 1) % 32];
}
