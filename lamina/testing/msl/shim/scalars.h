// The scalar types of the Metal Shading Language, section 2.1.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

namespace msl {

template <bool Condition, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool Condition, class T = void> using when = typename enable_if<Condition, T>::type;

template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;
template <class T, class... Types> constexpr bool one_of = (same<T, Types> || ...);

template <class T>
constexpr bool integral = one_of<T, bool, char, signed char, uchar, short, ushort, int, uint, long,
                                 ulong, long long, unsigned long long>;
template <class T> constexpr bool arithmetic = integral<T> || one_of<T, float, double>;

#ifdef __aarch64__
typedef __fp16 native_half;
#else
typedef _Float16 native_half;
#endif

}  // namespace msl

// Each operation on 16 bits is done in float and rounded once, whatever the CPU has.
struct bfloat;

struct half {
  uint16_t bits;

  half() = default;
  template <class T, class = msl::when<msl::arithmetic<T>>>
  constexpr half(T value) : bits(__builtin_bit_cast(uint16_t, msl::native_half(float(value)))) {}
  explicit constexpr half(bfloat value);
  constexpr operator float() const { return float(__builtin_bit_cast(msl::native_half, bits)); }
};

struct bfloat {
  uint16_t bits;

  bfloat() = default;
  template <class T, class = msl::when<msl::arithmetic<T>>>
  explicit constexpr bfloat(T value) : bits(narrow(__builtin_bit_cast(uint32_t, float(value)))) {}
  explicit constexpr bfloat(half value) : bfloat(float(value)) {}
  constexpr operator float() const { return __builtin_bit_cast(float, uint32_t(bits) << 16); }

 private:
  static constexpr uint16_t narrow(uint32_t wide) {
    if ((wide & 0x7fffffff) > 0x7f800000) return uint16_t((wide >> 16) | 0x40);
    return uint16_t((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
};

constexpr half::half(bfloat value) : half(float(value)) {}

namespace msl {

template <class T> constexpr bool small = one_of<T, half, bfloat>;
template <class T> constexpr bool floating = one_of<T, float, half, bfloat>;
template <class T> constexpr bool scalar = arithmetic<T> || small<T>;

}  // namespace msl

#define MSL_SMALL(OP)                                                                     \
  template <class S, class = msl::when<msl::small<S>>> constexpr S operator OP(S a, S b) { \
    return S(float(a) OP float(b));                                                       \
  }                                                                                       \
  template <class S, class T, class = msl::when<msl::small<S> && msl::integral<T>>>        \
  constexpr S operator OP(S a, T b) {                                                     \
    return S(float(a) OP float(S(b)));                                                    \
  }                                                                                       \
  template <class T, class S, class = msl::when<msl::small<S> && msl::integral<T>>, int = 0> \
  constexpr S operator OP(T a, S b) {                                                     \
    return S(float(S(a)) OP float(b));                                                    \
  }                                                                                       \
  template <class S, class T, class = msl::when<msl::small<S> && msl::scalar<T>>>          \
  S& operator OP##=(S& a, T b) {                                                          \
    return a = S(float(a) OP float(b));                                                   \
  }
MSL_SMALL(+)
MSL_SMALL(-)
MSL_SMALL(*)
MSL_SMALL(/)
#undef MSL_SMALL

template <class S, class = msl::when<msl::small<S>>> constexpr S operator-(S a) {
  return S(-float(a));
}

constexpr half operator""h(long double value) { return half(double(value)); }
constexpr half operator""h(unsigned long long value) { return half(value); }
constexpr half operator""H(long double value) { return half(double(value)); }
constexpr bfloat operator""bf(long double value) { return bfloat(double(value)); }
constexpr bfloat operator""BF(long double value) { return bfloat(double(value)); }
