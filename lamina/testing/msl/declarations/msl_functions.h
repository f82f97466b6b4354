// Functions of numbers.

#define MSL_REALS(DO) \
  DO(float) DO(float2) DO(float3) DO(float4) DO(half) DO(half2) DO(half3) DO(half4)
#define MSL_REALS_AND_BFLOAT(DO) MSL_REALS(DO) DO(bfloat)
#define MSL_WHOLE_OF(DO, T) DO(T) DO(T##2) DO(T##3) DO(T##4)
#define MSL_WHOLES(DO)                                                              \
  MSL_WHOLE_OF(DO, char) MSL_WHOLE_OF(DO, uchar) MSL_WHOLE_OF(DO, short)            \
  MSL_WHOLE_OF(DO, ushort) MSL_WHOLE_OF(DO, int) MSL_WHOLE_OF(DO, uint)             \
  MSL_WHOLE_OF(DO, long) MSL_WHOLE_OF(DO, ulong)

namespace metal {

#define MSL_REAL_FUNCTIONS(T)                                                       \
  T acos(T x); T acosh(T x); T asin(T x); T asinh(T x); T atan(T x); T atanh(T x);  \
  T ceil(T x); T cos(T x); T cosh(T x); T exp(T x); T exp10(T x); T exp2(T x);      \
  T fabs(T x); T floor(T x); T fract(T x); T log(T x); T log10(T x); T log2(T x);   \
  T rint(T x); T round(T x); T rsqrt(T x); T sign(T x); T sin(T x); T sinh(T x);    \
  T sqrt(T x); T tan(T x); T tanh(T x); T trunc(T x); T saturate(T x);              \
  T atan2(T x, T y); T copysign(T x, T y); T divide(T x, T y); T fdim(T x, T y);    \
  T fmod(T x, T y); T fmax(T x, T y); T fmin(T x, T y); T nextafter(T x, T y);      \
  T pow(T x, T y); T powr(T x, T y); T step(T x, T y); T fma(T x, T y, T z);        \
  T mix(T x, T y, T a); T smoothstep(T low, T high, T x);                           \
  T ldexp(T x, int k);
#define MSL_ANY_FUNCTIONS(T) \
  T abs(T x); T max(T x, T y); T min(T x, T y); T clamp(T x, T low, T high);
#define MSL_WHOLE_FUNCTIONS(T)                                                      \
  T clz(T x); T ctz(T x); T popcount(T x); T reverse_bits(T x); T mulhi(T x, T y);  \
  T rotate(T x, T y); T extract_bits(T x, uint at, uint n);

MSL_REALS_AND_BFLOAT(MSL_REAL_FUNCTIONS)
MSL_REALS_AND_BFLOAT(MSL_ANY_FUNCTIONS)
MSL_WHOLES(MSL_ANY_FUNCTIONS)
MSL_WHOLES(MSL_WHOLE_FUNCTIONS)
namespace precise {
MSL_REALS(MSL_REAL_FUNCTIONS)
}
namespace fast {
MSL_REALS(MSL_REAL_FUNCTIONS)
}

#define MSL_TESTS(T) \
  bool isfinite(T x); bool isinf(T x); bool isnan(T x); bool isnormal(T x); bool signbit(T x);
MSL_TESTS(float)
MSL_TESTS(half)
MSL_TESTS(bfloat)
#define MSL_TESTS_OF(T, N)                                                          \
  bool##N isfinite(T##N x); bool##N isinf(T##N x); bool##N isnan(T##N x);           \
  T length(T##N x); T dot(T##N x, T##N y); T##N normalize(T##N x);
#define MSL_TESTS_OF_VECTORS(T) MSL_TESTS_OF(T, 2) MSL_TESTS_OF(T, 3) MSL_TESTS_OF(T, 4)
MSL_TESTS_OF_VECTORS(float)
MSL_TESTS_OF_VECTORS(half)

float frexp(float x, __private int& exponent);
float modf(float x, __private float& whole);

template <class T> T select(T a, T b, bool c);
#define MSL_SELECT(T)                    \
  T##2 select(T##2 a, T##2 b, bool2 c);  \
  T##3 select(T##3 a, T##3 b, bool3 c);  \
  T##4 select(T##4 a, T##4 b, bool4 c);
MSL_SELECT(float)
MSL_SELECT(half)
MSL_SELECT(int)
MSL_SELECT(uint)
bool all(bool x);
bool any(bool x);
#define MSL_VOTES(N) bool all(bool##N x); bool any(bool##N x);
MSL_VOTES(2) MSL_VOTES(3) MSL_VOTES(4)

template <class T> struct numeric_limits {
  static constexpr T lowest();
  static constexpr T min();
  static constexpr T max();
  static constexpr T infinity();
  static constexpr T quiet_NaN();
  static constexpr T epsilon();
};

template <class T, size_t N> struct array {
  T held[N];
  const T& operator[](size_t i) const;
  const __constant T& operator[](size_t i) const __constant;
  T& operator[](size_t i);
  constexpr size_t size() const { return N; }
};

#define MSL_PACKED(T)                  \
  typedef packed_vec<T, 2> packed_##T##2; \
  typedef packed_vec<T, 3> packed_##T##3; \
  typedef packed_vec<T, 4> packed_##T##4;
MSL_PACKED(char)
MSL_PACKED(uchar)
MSL_PACKED(short)
MSL_PACKED(ushort)
MSL_PACKED(int)
MSL_PACKED(uint)
MSL_PACKED(half)
MSL_PACKED(float)

}  // namespace metal

template <class To, class From> To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  return To();
}
