// What <metal_stdlib> and the language itself give to a Metal text; the texts come after it.
#pragma once
#include "atomic.h"
#include "matrix.h"

namespace metal {

template <class T> struct numeric_limits;
#define MSL_LIMITS(T, LOWEST, HIGHEST)                             \
  template <> struct numeric_limits<T> {                           \
    static constexpr T lowest() { return LOWEST; }                 \
    static constexpr T min() { return LOWEST; }                    \
    static constexpr T max() { return HIGHEST; }                   \
  };
#define MSL_REAL_LIMITS(T, SMALLEST, HIGHEST, INFINITE, EPSILON)   \
  template <> struct numeric_limits<T> {                           \
    static constexpr T lowest() { return T(-HIGHEST); }            \
    static constexpr T min() { return T(SMALLEST); }               \
    static constexpr T max() { return T(HIGHEST); }                \
    static constexpr T infinity() { return T(INFINITE); }          \
    static constexpr T quiet_NaN() { return T(__builtin_nanf("")); } \
    static constexpr T epsilon() { return T(EPSILON); }            \
  };
MSL_LIMITS(bool, false, true)
MSL_LIMITS(char, -128, 127)
MSL_LIMITS(uchar, 0, 255)
MSL_LIMITS(short, -32768, 32767)
MSL_LIMITS(ushort, 0, 65535)
MSL_LIMITS(int, -0x7fffffff - 1, 0x7fffffff)
MSL_LIMITS(uint, 0, 0xffffffff)
MSL_LIMITS(long, -0x7fffffffffffffff - 1, 0x7fffffffffffffff)
MSL_LIMITS(ulong, 0, 0xffffffffffffffff)
MSL_REAL_LIMITS(float, 0x1p-126f, 0x1.fffffep127f, __builtin_inff(), 0x1p-23f)
MSL_REAL_LIMITS(half, 0x1p-14f, 65504.0f, __builtin_inff(), 0x1p-10f)
MSL_REAL_LIMITS(bfloat, 0x1p-126f, 0x1.fep127f, __builtin_inff(), 0x1p-7f)
#undef MSL_LIMITS
#undef MSL_REAL_LIMITS

template <class T, size_t N> struct array {
  T held[N];
  const T& operator[](size_t i) const { return held[i]; }
  T& operator[](size_t i) { return held[i]; }
  constexpr size_t size() const { return N; }
};

}  // namespace metal

namespace msl {

// An argument of type T, given by its address.
template <class T> struct argument;
template <class T> struct argument<T*> {
  static T* of(void* at) { return static_cast<T*>(at); }
};
template <class T> struct argument<T&> {
  static T& of(void* at) { return *static_cast<T*>(at); }
};

// A place in one, two or three dimensions, as the type of the argument has it.
template <class T> T position(const unsigned (&at)[3]) {
  static_assert(one_of<element<T>, uint, ushort>, "a position is of uint or ushort");
  if constexpr (size<T> == 0) return T(at[0]);
  if constexpr (size<T> == 2) return T(at[0], at[1]);
  if constexpr (size<T> == 3) return T(at[0], at[1], at[2]);
}
template <class T> T ordinal(unsigned of) {
  static_assert(one_of<T, uint, ushort>, "a number of threads is uint or ushort");
  return T(of);
}
template <class T> T position_in_grid(const Place& at) {
  unsigned in_grid[3];
  for (int i = 0; i < 3; ++i) in_grid[i] = at.group[i] * at.threads[i] + at.thread_at[i];
  return position<T>(in_grid);
}
template <class T> T threads_in_grid(const Place& at) {
  unsigned in_grid[3];
  for (int i = 0; i < 3; ++i) in_grid[i] = at.groups[i] * at.threads[i];
  return position<T>(in_grid);
}

// A threadgroup variable of the program, by its number.
template <class T, unsigned Key> T& threadgroup_variable(const char* name) {
  return *static_cast<T*>(threadgroup_memory(Key, name, sizeof(T)));
}

}  // namespace msl

#define MAXFLOAT 0x1.fffffep127f
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1p-126f
#define FLT_EPSILON 0x1p-23f
#define HALF_MAX 65504.0h
#define HALF_MIN 0x1p-14h
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define M_PI_F 3.14159265358979323846f
#define M_E_F 2.71828182845904523536f
#define M_LN2_F 0.693147180559945309417f
#define M_LOG2E_F 1.44269504088896340736f
#define M_SQRT2_F 1.41421356237309504880f
#define INT_MAX 0x7fffffff
#define INT_MIN (-0x7fffffff - 1)
#define UINT_MAX 0xffffffffu
#define __METAL_VERSION__ 310
#define __METAL__ 1

#define kernel static
#define device
#define threadgroup
#define thread
#define constant const

#pragma GCC poison double
