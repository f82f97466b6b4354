// C[M, N] = A[M, K] * B[N, K]^T in bf16 with f32 sums: one producer warp copies boxes of 64 by 64,
// swizzled over 128 bytes, and a warpgroup multiplies; barriers of 3 stages are between them.
#define STAGES 3
#define BYTES 16384
typedef unsigned u32;
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };

__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
  asm volatile("{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; @done bra DONE; bra AGAIN; DONE: }" ::"r"(barrier), "r"(parity) : "memory");
}
__device__ __forceinline__ u64 descriptor(u32 address) {
  return (u64)((address & 0x3FFFF) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
__device__ __forceinline__ void load(u32 to, const Map *map, int x, int y, u32 barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

extern "C" __global__ __launch_bounds__(160) void hopper(const __grid_constant__ Map a, const __grid_constant__ Map b, float *c, int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char tiles[];
  __shared__ __align__(8) u64 bars[2 * STAGES];
  u32 base = (u32)__cvta_generic_to_shared(tiles), full = (u32)__cvta_generic_to_shared(bars), empty = full + 8 * STAGES;
  int t = threadIdx.x, warp = t / 32, steps = (k + 63) / 64, row = blockIdx.y * 64, column = blockIdx.x * 64;
  if (t == 0)
    for (int s = 0; s < STAGES; ++s) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(full + 8 * s));
      asm volatile("mbarrier.init.shared.b64 [%0], 4;" ::"r"(empty + 8 * s));
    }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (warp == 4) {
    if (t == 128)
      for (int s = 0; s < steps; ++s) {
        int stage = s % STAGES;
        if (s >= STAGES) wait(empty + 8 * stage, (s / STAGES - 1) & 1);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(full + 8 * stage), "r"(BYTES) : "memory");
        load(base + stage * BYTES, &a, s * 64, row, full + 8 * stage);
        load(base + stage * BYTES + BYTES / 2, &b, s * 64, column, full + 8 * stage);
      }
  } else {
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0;
    for (int s = 0; s < steps; ++s) {
      int stage = s % STAGES;
      wait(full + 8 * stage, (s / STAGES) & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        u64 da = descriptor(base + stage * BYTES + j * 32), db = descriptor(base + stage * BYTES + BYTES / 2 + j * 32);
        asm volatile("{ .reg .pred keep; setp.ne.b32 keep, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, keep, 1, 1, 0, 0; }"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
          : "l"(da), "l"(db), "r"(1));
      }
      asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (t % 32 == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(empty + 8 * stage) : "memory");
    }
    for (int i = 0; i < 32; ++i) {
      int y = row + warp * 16 + t % 32 / 4 + 8 * (i / 2 % 2), x = column + 8 * (i / 4) + 2 * (t % 4) + i % 2;
      if (y < m && x < n) c[(u64)y * n + x] = d[i];
    }
  }
}
