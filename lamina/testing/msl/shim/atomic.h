// Atomic operations, all of them relaxed: Metal Shading Language, section 6.15.
#pragma once
#include "functions.h"
#include "runtime.h"

namespace metal {

enum memory_order { memory_order_relaxed };

template <class T> struct atomic {
  static_assert(msl::one_of<T, bool, int, uint, ulong, float>, "there is no such atomic type");
  T held;
};
typedef atomic<bool> atomic_bool;
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<ulong> atomic_ulong;
typedef atomic<float> atomic_float;

}  // namespace metal

namespace msl {

// Threads take turns, so that plain accesses are atomic; they are no race either.
template <class T, class F>
__attribute__((noinline, no_sanitize_thread)) T exchanged(volatile metal::atomic<T>* at, F f) {
  check_atomic(at, sizeof(T));
  T before = const_cast<metal::atomic<T>*>(at)->held;
  const_cast<metal::atomic<T>*>(at)->held = f(before);
  return before;
}

}  // namespace msl

namespace metal {

#define MSL_ATOMIC(NAME, EXPRESSION)                                                       \
  template <class T, class V> T NAME(volatile atomic<T>* at, V value, memory_order) {      \
    T y = T(value);                                                                        \
    return msl::exchanged(at, [y](T x)                                                     \
                                  __attribute__((no_sanitize_thread)) { return T(EXPRESSION); }); \
  }
MSL_ATOMIC(atomic_exchange_explicit, y)
MSL_ATOMIC(atomic_fetch_add_explicit, x + y)
MSL_ATOMIC(atomic_fetch_sub_explicit, x - y)
MSL_ATOMIC(atomic_fetch_min_explicit, y < x ? y : x)
MSL_ATOMIC(atomic_fetch_max_explicit, x < y ? y : x)
MSL_ATOMIC(atomic_fetch_and_explicit, x & y)
MSL_ATOMIC(atomic_fetch_or_explicit, x | y)
MSL_ATOMIC(atomic_fetch_xor_explicit, x ^ y)
#undef MSL_ATOMIC

template <class T, class V>
void atomic_store_explicit(volatile atomic<T>* at, V value, memory_order order) {
  atomic_exchange_explicit(at, value, order);
}
template <class T> T atomic_load_explicit(const volatile atomic<T>* at, memory_order) {
  return msl::exchanged(const_cast<volatile atomic<T>*>(at), [](T x) { return x; });
}
template <class T, class V>
bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* at, T* expected, V desired,
                                           memory_order, memory_order) {
  T wanted = *expected, next = T(desired);
  *expected = msl::exchanged(at, [wanted, next](T x) { return x == wanted ? next : x; });
  return *expected == wanted;
}

}  // namespace metal
