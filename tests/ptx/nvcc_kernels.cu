#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float part[32];
  const float* row = x + (size_t)blockIdx.x * n;
  float m = -__int_as_float(0x7f800000);
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, row[i]);
  for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
  __syncthreads();
  int warps = blockDim.x / 32;
  m = part[0];
  for (int w = 1; w < warps; ++w) m = fmaxf(m, part[w]);
  __syncthreads();
  float s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += expf(row[i] - m);
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  s = 0;
  for (int w = 0; w < warps; ++w) s += part[w];
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[(size_t)blockIdx.x * n + i] = expf(row[i] - m) / s;
}
__device__ __noinline__ float poly(float x, int n) { float s = 0; for (int i = 0; i < n; ++i) s = s * x + i; return s; }
__constant__ float table[8] = {1, 2, 3, 5, 7, 11, 13, 17};
extern "C" __global__ void mixed(const int* a, const int* b, int* out, float* f, unsigned long long* wide, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = a[i], y = b[i];
  int r = 0;
  switch (x & 7) {
    case 0: r = x + y; break; case 1: r = x * y; break; case 2: r = y ? x / y : 0; break; case 3: r = y ? x % y : 0; break;
    case 4: r = __popc(x) + __clz(y); break; case 5: r = __brev(x) ^ __byte_perm(x, y, 0x3715); break;
    case 6: r = __dp4a(x, y, 3); break; default: r = __funnelshift_l(x, y, 7) + max(x, y); }
  out[i] = r;
  f[i] = poly(table[i & 7], x & 3) + sinf((float)x) + cosf(x * 0.25f) + logf((float)(x & 1023) + 1) + powf(1.5f, (float)(y & 7)) + rsqrtf(1.0f + (y & 15)) + tanhf(x * 0.01f) + (float)erff(y * 0.01f);
  wide[i] = (unsigned long long)(unsigned)x * (unsigned)y + __umul64hi((unsigned long long)x << 20, (unsigned long long)y << 30) + (unsigned long long)((long long)x / (y | 1));
}
extern "C" __global__ void halves(const __half* x, const __nv_bfloat16* y, __half* p, __nv_bfloat16* q, float* r, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half2 h = __half2half2(x[i]);
  __half2 g = __hfma2(h, h, __float2half2_rn(0.5f));
  p[i] = __hadd(__low2half(g), hexp(x[i]));
  __nv_bfloat16 b = __hmul(y[i], __float2bfloat16(1.25f));
  q[i] = __hadd(b, y[i]);
  r[i] = __half2float(p[i]) + __bfloat162float(q[i]) + (float)__half2int_rz(x[i]) + (float)__float2uint_rn(__bfloat162float(y[i]));
}
extern "C" __global__ void histogram(const unsigned* x, unsigned* out, float* sum, int n) {
  __shared__ unsigned bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { atomicAdd(&bins[x[i] & 15], 1u); atomicMax(out + 16, x[i]); atomicAdd(sum, 1.0f); atomicCAS(out + 17, 0u, x[i]); }
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(out + threadIdx.x, bins[threadIdx.x]);
}
extern "C" __global__ void warps(const int* x, unsigned* out, int n) {
  int i = threadIdx.x;
  int v = x[i];
  unsigned ballot = __ballot_sync(~0u, v > 0);
  unsigned any = __match_any_sync(~0u, v & 3);
  int red = __reduce_add_sync(~0u, v);
  int mx = __reduce_max_sync(~0u, v);
  int up = __shfl_up_sync(~0u, v, 3);
  int dn = __shfl_down_sync(~0u, v, 5, 16);
  int ix = __shfl_sync(~0u, v, i * 7, 8);
  unsigned all = __all_sync(~0u, v < 1000) + 2 * __any_sync(~0u, v == 3);
  unsigned* o = out + i * 8;
  o[0] = ballot; o[1] = any; o[2] = red; o[3] = mx; o[4] = up; o[5] = dn; o[6] = ix; o[7] = all;
}
