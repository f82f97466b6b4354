// What vectors, packed vectors and choices of their components have in common.
#pragma once
#include "scalars.h"

namespace metal {
template <class T, int N> struct vec;
template <class T, int N> struct packed_vec;
}  // namespace metal

namespace msl {

template <class T, int... I> struct swizzle;

template <class A> struct shape {
  static constexpr int size = 0;
  typedef A element;
  typedef A value;
};
template <class T, int N> struct shape<metal::vec<T, N>> {
  static constexpr int size = N;
  typedef T element;
  typedef metal::vec<T, N> value;
};
template <class T, int N> struct shape<metal::packed_vec<T, N>> : shape<metal::vec<T, N>> {};
template <class T, int... I>
struct shape<swizzle<T, I...>> : shape<metal::vec<T, int(sizeof...(I))>> {};

// What an expression of type A is: a scalar, or a vector that is neither packed nor a choice.
template <class A> using value = typename shape<A>::value;
template <class A> using element = typename shape<A>::element;
template <class A> constexpr int size = shape<A>::size;
template <class A> constexpr bool vector = size<A> != 0;
template <class A> constexpr bool number = vector<A> || scalar<A>;
template <class A> constexpr int length = vector<A> ? size<A> : 1;

template <class A> constexpr element<A> part(const A& a, int i) {
  if constexpr (vector<A>) {
    return a[i];
  } else {
    return a;
  }
}

// What an operation on A and B works with: vectors agree, and a scalar becomes one.
template <class A, class B, bool = vector<A>> struct joint : shape<A> {
  static_assert(!vector<B> || (size<A> == size<B> && same<element<A>, element<B>>),
                "vectors of different types are not converted into each other");
};
template <class A, class B> struct joint<A, B, false> : shape<B> {};

// The components I of the vector at whose start this lies.
template <class T, int... I> struct swizzle {
  static constexpr int count = sizeof...(I);
  typedef metal::vec<T, count> whole;

  T first[1];

  const T& operator[](int i) const { return static_cast<const T*>(first)[at(i)]; }
  T& operator[](int i) { return static_cast<T*>(first)[at(i)]; }
  swizzle& operator=(const swizzle& from) { return assign(whole(from)); }
  template <class A, class = when<number<A>>> swizzle& operator=(const A& from) {
    return assign(whole(from));
  }

 private:
  swizzle& assign(const whole& from) {
    for (int i = 0; i < count; ++i) (*this)[i] = from[i];
    return *this;
  }
  static constexpr int at(int i) {
    constexpr int places[] = {I...};
    return places[i];
  }
};

}  // namespace msl
