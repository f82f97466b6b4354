#include <stdint.h>
#include <string.h>
#include <tgmath.h>

typedef uint8_t i1, u1, u8; typedef uint16_t bf16, u16; typedef uint32_t u32; typedef uint64_t u64;
typedef int8_t i8; typedef int16_t i16; typedef int32_t i32; typedef int64_t i64;
typedef _Float16 f16; typedef float f32; typedef double f64;

/* NaN wins, and -0 is below +0; of integers, the plain extremes. */
#define PICK(a, b, test, zero) (test || (a) != (a) || ((a) == (b) && zero) ? (a) : (b))
#define MAX(a, b) PICK(a, b, (a) > (b), 1 / (f64)(a) > 0)
#define MIN(a, b) PICK(a, b, (a) < (b), 1 / (f64)(a) < 0)
#define INF INFINITY

static inline f32 from_bf16(bf16 x) { return (union { u32 u; f32 f; }){(u32)x << 16}.f; }

/* Rounded once, half to even, by way of an f32 that was rounded to odd. */
static inline bf16 to_bf16(f64 x) {
  union { f32 f; u32 u; } y = {(f32)x};
  if (x != x) return 0x7FC0;
  if (y.f != x && !isinf(y.f) && !(y.u & 1)) y.u += fabs((f64)y.f) < fabs(x) ? 1 : -1;
  return (bf16)((y.u + 0x7FFF + (y.u >> 16 & 1)) >> 16);
}

/* Half to even; NaN is 0, and what is outside of the type its nearest number. */
static inline i64 saturate(f64 x, int bits, int is_signed) {
  f64 high = ldexp(1.0, bits - is_signed), low = is_signed ? -high : 0, y = rint(x);
  if (y >= high) return (i64)(~(u64)0 >> (64 - bits + is_signed));
  return y >= low ? is_signed ? (i64)y : (i64)(u64)y : y < low ? (i64)low : 0;
}
