// Functions of one to three numbers, element by element: Metal Shading Language, section 6.
#pragma once
#include "vectors.h"

namespace msl {

// The type of an operation on numbers that agree: two vectors, a vector and a scalar, or two
// scalars of one type.
template <class A, class B, bool = vector<A> || vector<B>> struct agreed {
  typedef both<A, B> type;
};
template <class A> struct agreed<A, A, false> { typedef A type; };
template <class A, class B> using agree = typename agreed<A, B>::type;

template <class F, class A, class... More> value<A> map(F f, const A& a, const More&... more) {
  typedef element<A> T;
  if constexpr (vector<A>) {
    value<A> y;
    for (int i = 0; i < size<A>; ++i) y[i] = T(f(T(a[i]), T(part(more, i))...));
    return y;
  } else {
    return T(f(a, more...));
  }
}

template <class A> constexpr bool real = floating<element<A>>;
template <class A> constexpr bool whole = integral<element<A>>;

// For a NaN, the other argument.
template <class T> constexpr T lesser(T a, T b) { return b < a || a != a ? b : a; }
template <class T> constexpr T greater(T a, T b) { return a < b || a != a ? b : a; }
template <class T> struct unsigned_of { typedef T type; };
template <> struct unsigned_of<char> { typedef uchar type; };
template <> struct unsigned_of<short> { typedef ushort type; };
template <> struct unsigned_of<int> { typedef uint type; };
template <> struct unsigned_of<long> { typedef ulong type; };

template <class T> constexpr int bits_of = int(8 * sizeof(T));

template <class T> T reversed(T x) {
  typename unsigned_of<T>::type from = x, to = 0;
  for (int i = 0; i < bits_of<T>; ++i) to = (to << 1) | ((from >> i) & 1);
  return to;
}
template <class T> T leading(T x) {
  typedef typename unsigned_of<T>::type U;
  return U(x) ? T(__builtin_clzl(U(x)) - (64 - bits_of<T>)) : T(bits_of<T>);
}
template <class T> T trailing(T x) {
  typedef typename unsigned_of<T>::type U;
  return U(x) ? T(__builtin_ctzl(U(x))) : T(bits_of<T>);
}
template <class T> T high(T a, T b) {
  if constexpr (sizeof(T) == 8) return T(((__int128)a * b) >> 64);
  return T((long(a) * long(b)) >> bits_of<T>);
}
template <class T> T turned(T x, T by) {
  typedef typename unsigned_of<T>::type U;
  int n = by & (bits_of<T> - 1);
  return n ? T((U(x) << n) | (U(x) >> (bits_of<T> - n))) : x;
}
template <class T> T field(T x, uint at, uint n) {
  if (n == 0) return 0;
  typename unsigned_of<T>::type up = x;
  up <<= bits_of<T> - at - n;
  return T(up) >> (bits_of<T> - n);
}

inline float fraction(float x) {
  float f = x - __builtin_floorf(x);
  return f < 1.0f ? f : 0x1.fffffep-1f;
}

}  // namespace msl

namespace metal {

#define MSL_ONE(NAME, EXPRESSION)                                             \
  template <class A, class = msl::when<msl::real<A>>>                         \
  msl::value<A> NAME(const A& a) {                                            \
    return msl::map([](float x) { return EXPRESSION; }, a);                   \
  }
#define MSL_TWO(NAME, EXPRESSION)                                             \
  template <class A, class B, class Y = msl::agree<A, B>, class = msl::when<msl::real<Y>>> \
  Y NAME(const A& a, const B& b) {                                            \
    return msl::map([](float x, float y) { return EXPRESSION; }, Y(a), Y(b)); \
  }
#define MSL_TEST(NAME, EXPRESSION)                                            \
  template <class A, class = msl::when<msl::real<A>>> auto NAME(const A& a) { \
    if constexpr (msl::vector<A>) {                                           \
      vec<bool, msl::size<A>> y;                                              \
      for (int i = 0; i < msl::size<A>; ++i) y[i] = NAME(a[i]);               \
      return y;                                                               \
    } else {                                                                  \
      float x = a;                                                            \
      return bool(EXPRESSION);                                                \
    }                                                                         \
  }
#define MSL_WHOLE(NAME, FUNCTION)                                             \
  template <class A, class = msl::when<msl::whole<A>>>                        \
  msl::value<A> NAME(const A& a) {                                            \
    return msl::map([](auto x) { return FUNCTION(x); }, a);                   \
  }

#define MSL_REAL_FUNCTIONS                                                    \
  MSL_ONE(acos, __builtin_acosf(x))                                           \
  MSL_ONE(acosh, __builtin_acoshf(x))                                         \
  MSL_ONE(asin, __builtin_asinf(x))                                           \
  MSL_ONE(asinh, __builtin_asinhf(x))                                         \
  MSL_ONE(atan, __builtin_atanf(x))                                           \
  MSL_ONE(atanh, __builtin_atanhf(x))                                         \
  MSL_ONE(ceil, __builtin_ceilf(x))                                           \
  MSL_ONE(cos, __builtin_cosf(x))                                             \
  MSL_ONE(cosh, __builtin_coshf(x))                                           \
  MSL_ONE(exp, __builtin_expf(x))                                             \
  MSL_ONE(exp10, __builtin_powf(10.0f, x))                                    \
  MSL_ONE(exp2, __builtin_exp2f(x))                                           \
  MSL_ONE(fabs, __builtin_fabsf(x))                                           \
  MSL_ONE(floor, __builtin_floorf(x))                                         \
  MSL_ONE(fract, msl::fraction(x))                                            \
  MSL_ONE(log, __builtin_logf(x))                                             \
  MSL_ONE(log10, __builtin_log10f(x))                                         \
  MSL_ONE(log2, __builtin_log2f(x))                                           \
  MSL_ONE(rint, __builtin_rintf(x))                                           \
  MSL_ONE(round, __builtin_roundf(x))                                         \
  MSL_ONE(rsqrt, 1.0f / __builtin_sqrtf(x))                                   \
  MSL_ONE(sign, x > 0 ? 1.0f : x < 0 ? -1.0f : x == 0 ? x : 0.0f)             \
  MSL_ONE(sin, __builtin_sinf(x))                                             \
  MSL_ONE(sinh, __builtin_sinhf(x))                                           \
  MSL_ONE(sqrt, __builtin_sqrtf(x))                                           \
  MSL_ONE(tan, __builtin_tanf(x))                                             \
  MSL_ONE(tanh, __builtin_tanhf(x))                                           \
  MSL_ONE(trunc, __builtin_truncf(x))                                         \
  MSL_ONE(saturate, msl::lesser(msl::greater(x, 0.0f), 1.0f))          \
  MSL_TWO(atan2, __builtin_atan2f(x, y))                                      \
  MSL_TWO(copysign, __builtin_copysignf(x, y))                                \
  MSL_TWO(divide, x / y)                                                      \
  MSL_TWO(fdim, __builtin_fdimf(x, y))                                        \
  MSL_TWO(fmod, __builtin_fmodf(x, y))                                        \
  MSL_TWO(fmax, msl::greater(x, y))                                        \
  MSL_TWO(fmin, msl::lesser(x, y))                                        \
  MSL_TWO(nextafter, __builtin_nextafterf(x, y))                              \
  MSL_TWO(pow, __builtin_powf(x, y))                                          \
  MSL_TWO(powr, __builtin_powf(x, y))                                         \
  MSL_TWO(step, y < x ? 0.0f : 1.0f)
MSL_REAL_FUNCTIONS

MSL_TEST(isfinite, __builtin_isfinite(x))
MSL_TEST(isinf, __builtin_isinf(x))
MSL_TEST(isnan, __builtin_isnan(x))
MSL_TEST(isnormal, __builtin_isnormal(x))
MSL_TEST(signbit, __builtin_signbit(x))

MSL_WHOLE(clz, msl::leading)
MSL_WHOLE(ctz, msl::trailing)
MSL_WHOLE(popcount, __builtin_popcountl)
MSL_WHOLE(reverse_bits, msl::reversed)

template <class A, class B, class Y = msl::agree<A, B>> Y max(const A& a, const B& b) {
  return msl::map([](auto x, auto y) { return msl::greater(x, y); }, Y(a), Y(b));
}
template <class A, class B, class Y = msl::agree<A, B>> Y min(const A& a, const B& b) {
  return msl::map([](auto x, auto y) { return msl::lesser(x, y); }, Y(a), Y(b));
}
template <class A, class B, class C> auto clamp(const A& x, const B& low, const C& high) {
  return min(max(x, low), high);
}
template <class A, class = msl::when<msl::number<A>>> msl::value<A> abs(const A& a) {
  if constexpr (msl::real<A>) {
    return fabs(a);
  } else {
    return msl::map([](auto x) { return x < 0 ? -x : x; }, a);
  }
}
template <class A, class B, class C, class Y = msl::agree<msl::agree<A, B>, C>>
Y fma(const A& a, const B& b, const C& c) {
  static_assert(msl::real<Y>, "fma is for floats");
  auto fused = [](auto x, auto y, auto z) { return __builtin_fmaf(x, y, z); };
  return msl::map(fused, Y(a), Y(b), Y(c));
}
template <class A, class B, class C> auto mix(const A& x, const B& y, const C& a) {
  return x + (y - x) * a;
}
template <class A, class B, class C> auto smoothstep(const A& low, const B& high, const C& x) {
  auto t = saturate((x - low) / (high - low));
  return t * t * (3 - 2 * t);
}
template <class A> msl::value<A> ldexp(const A& a, int k) {
  return msl::map([k](float x) { return __builtin_ldexpf(x, k); }, a);
}
inline float frexp(float x, int& exponent) { return __builtin_frexpf(x, &exponent); }
inline float modf(float x, float& whole) { return __builtin_modff(x, &whole); }
template <class A, class B, class Y = msl::agree<A, B>> Y mulhi(const A& a, const B& b) {
  return msl::map([](auto x, auto y) { return msl::high(x, y); }, Y(a), Y(b));
}
template <class A, class B, class Y = msl::agree<A, B>> Y rotate(const A& a, const B& b) {
  return msl::map([](auto x, auto y) { return msl::turned(x, y); }, Y(a), Y(b));
}
template <class A> msl::value<A> extract_bits(const A& a, uint at, uint n) {
  return msl::map([at, n](auto x) { return msl::field(x, at, n); }, a);
}

template <class A, class B, class Y = msl::agree<A, B>> Y select(const A& a, const B& b, bool c) {
  return c ? Y(b) : Y(a);
}
template <class A, int N> msl::value<A> select(const A& a, const A& b, const vec<bool, N>& c) {
  msl::value<A> y;
  for (int i = 0; i < N; ++i) y[i] = c[i] ? b[i] : a[i];
  return y;
}
template <int N> bool all(const vec<bool, N>& x) {
  bool y = true;
  for (int i = 0; i < N; ++i) y = y && x[i];
  return y;
}
template <int N> bool any(const vec<bool, N>& x) { return !all(!x); }
inline bool all(bool x) { return x; }
inline bool any(bool x) { return x; }

template <class A, class B, class Y = msl::agree<A, B>, class = msl::when<msl::real<Y>>>
msl::element<Y> dot(const A& a, const B& b) {
  msl::element<Y> y = a[0] * b[0];
  for (int i = 1; i < msl::size<Y>; ++i) y += a[i] * b[i];
  return y;
}
template <class A> auto length_squared(const A& a) { return dot(a, a); }
template <class A> auto length(const A& a) { return sqrt(dot(a, a)); }
template <class A> auto normalize(const A& a) { return msl::value<A>(a * rsqrt(dot(a, a))); }

namespace precise {
MSL_REAL_FUNCTIONS
}  // namespace precise
namespace fast {
MSL_REAL_FUNCTIONS
}  // namespace fast
#undef MSL_REAL_FUNCTIONS
#undef MSL_ONE
#undef MSL_TWO
#undef MSL_TEST
#undef MSL_WHOLE

}  // namespace metal

// The bits of `from` as a value of another type of the same size.
template <class To, class From> To as_type(const From& from) {
  msl::value<From> held = from;
  static_assert(sizeof(To) == sizeof(held), "as_type keeps the size");
  To to;
  __builtin_memcpy(&to, &held, sizeof to);
  return to;
}
