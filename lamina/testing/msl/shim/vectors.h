// Vectors of two to four components: Metal Shading Language, sections 2.2 to 2.4.
#pragma once
#include "swizzle.h"

namespace metal {

template <class T, int N> struct named;
#include "named.h"

template <class T, int N> struct alignas(sizeof(T) * (N == 3 ? 4 : N)) vec : named<T, N> {
  using named<T, N>::data;

  vec() = default;
  vec(const vec& from) : named<T, N>() { fill(0, from); }
  vec& operator=(const vec& from) {
    fill(0, from);
    return *this;
  }
  template <class A, class = msl::when<msl::scalar<A>>> vec(A all) {
    for (int i = 0; i < N; ++i) data[i] = T(all);
  }
  vec(const packed_vec<T, N>& from) { fill(0, from); }
  template <int... I, class = msl::when<sizeof...(I) == N>> vec(const msl::swizzle<T, I...>& from) {
    fill(0, from);
  }
  template <class A, class = msl::when<msl::vector<A> && !msl::same<msl::element<A>, T>>, int = 0>
  explicit vec(const A& from) {
    static_assert(msl::size<A> == N, "a vector is not converted into one of another length");
    fill(0, from);
  }
  template <class A, class B, class... More> vec(const A& a, const B& b, const More&... more) {
    static_assert(msl::length<A> + msl::length<B> + (msl::length<More> + ... + 0) == N,
                  "a vector is made of as many components as it has");
    fill(0, a, b, more...);
  }

  const T& operator[](int i) const { return data[i]; }
  T& operator[](int i) { return data[i]; }

 private:
  void fill(int) {}
  template <class A, class... More> void fill(int at, const A& a, const More&... more) {
    for (int i = 0; i < msl::length<A>; ++i) data[at + i] = T(msl::part(a, i));
    fill(at + msl::length<A>, more...);
  }
};

template <class T, int N> struct packed_vec : named<T, N> {
  using named<T, N>::data;

  packed_vec() = default;
  packed_vec(const packed_vec& from) : packed_vec(vec<T, N>(from)) {}
  packed_vec(const vec<T, N>& from) : named<T, N>() { *this = from; }
  template <class... A> explicit packed_vec(const A&... a) : packed_vec(vec<T, N>(a...)) {}
  packed_vec& operator=(const packed_vec& from) { return *this = vec<T, N>(from); }
  packed_vec& operator=(const vec<T, N>& from) {
    for (int i = 0; i < N; ++i) data[i] = from[i];
    return *this;
  }

  const T& operator[](int i) const { return data[i]; }
  T& operator[](int i) { return data[i]; }
};

#define MSL_NAMES(T)                                                        \
  typedef vec<T, 2> T##2;                                                   \
  typedef vec<T, 3> T##3;                                                   \
  typedef vec<T, 4> T##4;                                                   \
  typedef packed_vec<T, 2> packed_##T##2;                                   \
  typedef packed_vec<T, 3> packed_##T##3;                                   \
  typedef packed_vec<T, 4> packed_##T##4;
MSL_NAMES(bool)
MSL_NAMES(char)
MSL_NAMES(uchar)
MSL_NAMES(short)
MSL_NAMES(ushort)
MSL_NAMES(int)
MSL_NAMES(uint)
MSL_NAMES(long)
MSL_NAMES(ulong)
MSL_NAMES(half)
MSL_NAMES(bfloat)
MSL_NAMES(float)
#undef MSL_NAMES

}  // namespace metal

namespace msl {

template <class A, class B> using both =
    metal::vec<typename joint<A, B>::element, joint<A, B>::size>;
template <class A, class B> using when_vector =
    when<(vector<A> || vector<B>) && number<A> && number<B>>;

}  // namespace msl

#define MSL_BINARY(OP)                                                                     \
  template <class A, class B, class = msl::when_vector<A, B>>                              \
  msl::both<A, B> operator OP(const A& a, const B& b) {                                    \
    typedef typename msl::joint<A, B>::element T;                                          \
    msl::both<A, B> y;                                                                     \
    for (int i = 0; i < msl::joint<A, B>::size; ++i)                                       \
      y[i] = T(T(msl::part(a, i)) OP T(msl::part(b, i)));                                  \
    return y;                                                                              \
  }                                                                                        \
  template <class A, class B, class = msl::when<msl::vector<A> && msl::number<B>>>         \
  A& operator OP##=(A& a, const B& b) {                                                    \
    return a = a OP b;                                                                     \
  }
MSL_BINARY(+)
MSL_BINARY(-)
MSL_BINARY(*)
MSL_BINARY(/)
MSL_BINARY(%)
MSL_BINARY(&)
MSL_BINARY(|)
MSL_BINARY(^)
MSL_BINARY(<<)
MSL_BINARY(>>)
#undef MSL_BINARY

#define MSL_COMPARE(OP)                                                                    \
  template <class A, class B, class = msl::when_vector<A, B>>                              \
  metal::vec<bool, msl::joint<A, B>::size> operator OP(const A& a, const B& b) {           \
    typedef typename msl::joint<A, B>::element T;                                          \
    metal::vec<bool, msl::joint<A, B>::size> y;                                            \
    for (int i = 0; i < msl::joint<A, B>::size; ++i)                                       \
      y[i] = T(msl::part(a, i)) OP T(msl::part(b, i));                                     \
    return y;                                                                              \
  }
MSL_COMPARE(==)
MSL_COMPARE(!=)
MSL_COMPARE(<)
MSL_COMPARE(<=)
MSL_COMPARE(>)
MSL_COMPARE(>=)
MSL_COMPARE(&&)
MSL_COMPARE(||)
#undef MSL_COMPARE

#define MSL_UNARY(OP)                                                                      \
  template <class A, class = msl::when<msl::vector<A>>> msl::value<A> operator OP(const A& a) { \
    msl::value<A> y;                                                                       \
    for (int i = 0; i < msl::size<A>; ++i) y[i] = msl::element<A>(OP a[i]);                \
    return y;                                                                              \
  }
MSL_UNARY(-)
MSL_UNARY(~)
MSL_UNARY(!)
#undef MSL_UNARY
