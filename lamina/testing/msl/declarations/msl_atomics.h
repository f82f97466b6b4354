// Atomic operations, all of them relaxed.

namespace metal {

enum msl_memory_order { msl_memory_order_relaxed };

template <class T> struct atomic {
  T held;
};
typedef atomic<bool> msl_atomic_bool;
typedef atomic<int> msl_atomic_int;
typedef atomic<uint> msl_atomic_uint;
typedef atomic<ulong> msl_atomic_ulong;
typedef atomic<float> msl_atomic_float;

template <class T> struct msl_itself {
  typedef T type;
};
template <class T> using msl_value = typename msl_itself<T>::type;

#define MSL_FETCH(SPACE, NAME) \
  template <class T>           \
  T NAME(volatile SPACE atomic<T>* at, msl_value<T> value, msl_memory_order order);
#define MSL_SPACE(SPACE)                                                                  \
  MSL_FETCH(SPACE, atomic_exchange_explicit)                                              \
  MSL_FETCH(SPACE, atomic_fetch_add_explicit)                                             \
  MSL_FETCH(SPACE, atomic_fetch_sub_explicit)                                             \
  MSL_FETCH(SPACE, atomic_fetch_min_explicit)                                             \
  MSL_FETCH(SPACE, atomic_fetch_max_explicit)                                             \
  MSL_FETCH(SPACE, atomic_fetch_and_explicit)                                             \
  MSL_FETCH(SPACE, atomic_fetch_or_explicit)                                              \
  MSL_FETCH(SPACE, atomic_fetch_xor_explicit)                                             \
  template <class T>                                                                      \
  void atomic_store_explicit(volatile SPACE atomic<T>* at, msl_value<T> value,            \
                             msl_memory_order order);                                     \
  template <class T>                                                                      \
  T atomic_load_explicit(const volatile SPACE atomic<T>* at, msl_memory_order order);         \
  template <class T>                                                                      \
  bool atomic_compare_exchange_weak_explicit(volatile SPACE atomic<T>* at,                \
                                             __private T* expected, msl_value<T> desired, \
                                             msl_memory_order success, msl_memory_order failure);
MSL_SPACE(__global)
MSL_SPACE(__local)
#undef MSL_SPACE
#undef MSL_FETCH

}  // namespace metal

// The compiler has types of these names already.
#define memory_order msl_memory_order
#define memory_order_relaxed msl_memory_order_relaxed
#define atomic_bool msl_atomic_bool
#define atomic_int msl_atomic_int
#define atomic_uint msl_atomic_uint
#define atomic_ulong msl_atomic_ulong
#define atomic_float msl_atomic_float
