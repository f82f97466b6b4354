// C[M,N] = A[M,K] * B[N,K]^T, bf16 in, f32 out. 128x128x32 tiles, 256 threads, 3 stages, xor swizzle
#define BM 128
#define BN 128
#define BK 32
#define ST 3
typedef unsigned u32;
__device__ __forceinline__ u32 sw(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }
extern "C" __global__ __launch_bounds__(256) void gemm(const unsigned short* __restrict__ A, const unsigned short* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  extern __shared__ __align__(128) unsigned char smem[];
  u32 base = (u32)__cvta_generic_to_shared(smem);
  int t = threadIdx.x, lane = t & 31, w = t >> 5, wm = w >> 2, wn = w & 3;
  int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  float acc[4][4][4] = {};
  auto load = [&](int stage, int k0) {
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      int c = t + i * 256, row = c >> 2, ch = c & 3;
      int ma = m0 + row < M ? m0 + row : M - 1, nb = n0 + row < N ? n0 + row : N - 1;
      int left = (K - (k0 + ch * 8)) * 2; left = left < 0 ? 0 : left > 16 ? 16 : left;
      u32 sa = m0 + row < M ? left : 0, sb = n0 + row < N ? left : 0;
      const unsigned short* ga = A + (size_t)ma * K + (left ? k0 + ch * 8 : 0);
      const unsigned short* gb = B + (size_t)nb * K + (left ? k0 + ch * 8 : 0);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(base + stage * 16384 + sw(row, ch)), "l"(ga), "r"(sa));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(base + stage * 16384 + 8192 + sw(row, ch)), "l"(gb), "r"(sb));
    }
    };
  int steps = (K + BK - 1) / BK;
  for (int s = 0; s < ST - 1; ++s) { if (s < steps) load(s, s * BK); asm volatile("cp.async.commit_group;"); }
  for (int s = 0; s < steps; ++s) {
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    if (s + ST - 1 < steps) load((s + ST - 1) % ST, (s + ST - 1) * BK);
    asm volatile("cp.async.commit_group;");
    u32 sa = base + (s % ST) * 16384, sb = sa + 8192;
    #pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      u32 a[4][4], b[4][2];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        int row = wm * 64 + i * 16 + (lane & 15), ch = kk * 2 + (lane >> 4);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3]) : "r"(sa + sw(row, ch)));
      }
      #pragma unroll
      for (int j = 0; j < 4; j += 2) {
        int row = wn * 32 + j * 8 + (lane & 7) + ((lane >> 4) << 3), ch = kk * 2 + ((lane >> 3) & 1);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[j][0]), "=r"(b[j][1]), "=r"(b[j+1][0]), "=r"(b[j+1][1]) : "r"(sb + sw(row, ch)));
      }
      #pragma unroll
      for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3]) : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
    }
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      for (int h = 0; h < 4; ++h) {
        int m = m0 + wm * 64 + i * 16 + (lane >> 2) + (h >> 1) * 8, n = n0 + wn * 32 + j * 8 + (lane & 3) * 2 + (h & 1);
        if (m < M && n < N) C[(size_t)m * N + n] = acc[i][j][h];
      }
}
