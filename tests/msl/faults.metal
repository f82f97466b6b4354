// Kernels that do what they must not, each of them one thing.
#include <metal_stdlib>
using namespace metal;

kernel void reads_past_the_end(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                               uint at [[thread_position_in_grid]]) {
  y[at] = x[at + 1];
}
kernel void writes_before_the_start(device float* y [[buffer(1)]],
                                    uint at [[thread_position_in_grid]]) {
  y[int(at) - 1] = 1.0f;
}
kernel void reads_far_away(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                           uint at [[thread_position_in_grid]]) {
  y[at] = x[at - 1000000u];
}
kernel void passes_a_variable(device float* y [[buffer(1)]], uint at [[thread_position_in_grid]]) {
  threadgroup float held[32];
  threadgroup float* first = held + 1;
  first[at] = 1.0f;
  y[at] = first[at];
}
kernel void passes_an_argument(device float* y [[buffer(1)]],
                               threadgroup float* held [[threadgroup(2)]],
                               uint at [[thread_position_in_grid]]) {
  held[at + 4] = 1.0f;
  y[at] = held[at + 4];
}
kernel void passes_an_array(device float* y [[buffer(1)]], uint at [[thread_position_in_grid]]) {
  float own[4] = {0.0f, 1.0f, 2.0f, 3.0f};
  y[at] = own[at];
}
kernel void writes_a_constant(constant float& scale [[buffer(0)]], device float* y [[buffer(1)]],
                              uint at [[thread_position_in_grid]]) {
  if (at == 3) const_cast<device float&>(scale) = 1.0f;
  y[at] = scale;
}
kernel void is_not_aligned(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                           uint at [[thread_position_in_grid]]) {
  y[at] = ((device const float4*)(x + at))->x;
}
kernel void divides_by_zero(device const int* x [[buffer(0)]], device int* y [[buffer(1)]],
                            uint at [[thread_position_in_grid]]) {
  y[at] = 7 / x[at];
}
kernel void does_not_end(device float* y [[buffer(1)]], uint at [[thread_position_in_grid]]) {
  for (uint i = 0; y[at] == 0.0f; ++i) y[at] = i < 0 ? 1.0f : 0.0f;
}
kernel void sums_by_some(device float* y [[buffer(1)]], uint at [[thread_position_in_grid]]) {
  if (at < 5) y[at] = simd_sum(1.0f);
}
kernel void sums_in_two_places(device float* y [[buffer(1)]],
                               uint at [[thread_position_in_grid]]) {
  if (at % 2)
    y[at] = simd_sum(1.0f);
  else
    y[at] = simd_max(1.0f);
}
kernel void stops_some(device float* y [[buffer(1)]], uint at [[thread_position_in_grid]]) {
  if (at >= 40) threadgroup_barrier(mem_flags::mem_threadgroup);
  y[at] = 1.0f;
}
kernel void stops_in_two_places(device float* y [[buffer(1)]],
                                uint at [[thread_position_in_grid]]) {
  if (at < 32)
    threadgroup_barrier(mem_flags::mem_none);
  else
    threadgroup_barrier(mem_flags::mem_none);
  y[at] = 1.0f;
}
kernel void asks_a_lane_that_is_not_there(device float* y [[buffer(1)]],
                                          uint at [[thread_position_in_grid]]) {
  y[at] = simd_shuffle(1.0f, 32);
}
kernel void loads_from_many_places(device float* y [[buffer(1)]],
                                   uint at [[thread_position_in_grid]]) {
  simdgroup_float8x8 matrix;
  simdgroup_load(matrix, y + at % 2, 4);
  if (at == 64) y[at] = matrix.thread_elements().x;
}
kernel void takes_too_much(device float* y [[buffer(1)]], uint at [[thread_position_in_grid]]) {
  threadgroup float held[8193];
  held[at] = 1.0f;
  y[at] = held[at];
}
kernel void groups_write_the_same(device float* y [[buffer(1)]],
                                  uint at [[thread_position_in_grid]]) {
  y[at % 32] = 1.0f;
}
kernel void group_reads_what_another_writes(device float* y [[buffer(1)]],
                                            uint at [[thread_position_in_grid]]) {
  y[at] = y[(at + 32) % 64] + 1.0f;
}
kernel void stops_in_one_place(device float* y [[buffer(1)]], uint at [[thread_position_in_grid]]) {
  threadgroup_barrier(mem_flags::mem_none);
  y[at] = 1.0f;
}
kernel void orders_other_memory(device float* y [[buffer(1)]],
                                uint at [[thread_position_in_grid]]) {
  threadgroup float held[64];
  held[at] = 1.0f;
  threadgroup_barrier(mem_flags::mem_device);
  y[at] = held[63 - at];
}
kernel void recurses(device float* y [[buffer(1)]], uint at [[thread_position_in_grid]]) {
  volatile float own[100000];
  for (uint i = 0; i < 100000; ++i) own[i] = y[at];
  y[at] = own[at];
}
