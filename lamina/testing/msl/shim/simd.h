// What the threads of a simdgroup or threadgroup do together: Metal Shading Language, section 6.9.
#pragma once
#include "functions.h"
#include "runtime.h"

namespace msl {

// What each lane gave.
template <class T> struct Lanes {
  const char* first;

  // Not the kernel's memory: its accesses need not be looked up.
  __attribute__((noinline, no_sanitize_thread)) T operator[](unsigned lane) const {
    T given;
    __builtin_memcpy(&given, first + lane * slot_bytes, sizeof given);
    return given;
  }
};

template <class A> Lanes<value<A>> gather(const char* what, int line, const A& a) {
  value<A> given = a;
  static_assert(sizeof given <= slot_bytes);
  return {exchange(what, line, &given, sizeof given)};
}

// Folds in a tree, so that each lane gets the same bits.
template <class T, class F> T folded(const Lanes<T>& lanes, F f) {
  T held[simd_width];
  unsigned n = here().lanes();
  for (unsigned i = 0; i < n; ++i) held[i] = lanes[i];
  for (unsigned step = 1; step < simd_width; step *= 2)
    for (unsigned i = 0; i + step < n; i += 2 * step) held[i] = f(held[i], held[i + step]);
  return held[0];
}

template <class T> T from_lane(const char* what, int line, const Lanes<T>& lanes, unsigned lane) {
  if (lane >= here().lanes())
    die(line, "%s reads lane %u of a simdgroup of %u lanes", what, lane, here().lanes());
  return lanes[lane];
}

}  // namespace msl

namespace metal {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) {
  return mem_flags(int(a) | int(b));
}

inline void threadgroup_barrier(mem_flags flags, int line = __builtin_LINE()) {
  msl::threadgroup_barrier(line, int(flags) & 1, int(flags) & 2);
}
inline void simdgroup_barrier(mem_flags flags, int line = __builtin_LINE()) {
  msl::simdgroup_barrier(line, int(flags) & 1, int(flags) & 2);
}

#define MSL_FOLD(NAME, EXPRESSION)                                                     \
  template <class A> msl::value<A> NAME(const A& a, int line = __builtin_LINE()) {     \
    typedef msl::value<A> T;                                                           \
    auto f = [](const T& x, const T& y) { return T(EXPRESSION); };                     \
    return msl::folded(msl::gather(#NAME, line, a), f);                                \
  }
MSL_FOLD(simd_sum, x + y)
MSL_FOLD(simd_product, x* y)
MSL_FOLD(simd_min, min(x, y))
MSL_FOLD(simd_max, max(x, y))
MSL_FOLD(simd_and, x& y)
MSL_FOLD(simd_or, x | y)
MSL_FOLD(simd_xor, x ^ y)
#undef MSL_FOLD

#define MSL_PREFIX(NAME, START, FIRST, LAST, OP)                                       \
  template <class A> msl::value<A> NAME(const A& a, int line = __builtin_LINE()) {     \
    auto lanes = msl::gather(#NAME, line, a);                                          \
    msl::value<A> y = START;                                                           \
    for (unsigned i = 0; i < msl::here().lane() + LAST; ++i) y = y OP lanes[i];        \
    return y;                                                                          \
  }
MSL_PREFIX(simd_prefix_exclusive_sum, 0, 0, 0, +)
MSL_PREFIX(simd_prefix_inclusive_sum, 0, 0, 1, +)
MSL_PREFIX(simd_prefix_exclusive_product, 1, 0, 0, *)
MSL_PREFIX(simd_prefix_inclusive_product, 1, 0, 1, *)
#undef MSL_PREFIX

template <class A>
msl::value<A> simd_shuffle(const A& a, ushort lane, int line = __builtin_LINE()) {
  return msl::from_lane("simd_shuffle", line, msl::gather("simd_shuffle", line, a), lane);
}
template <class A>
msl::value<A> simd_broadcast(const A& a, ushort lane, int line = __builtin_LINE()) {
  return msl::from_lane("simd_broadcast", line, msl::gather("simd_broadcast", line, a), lane);
}
template <class A> msl::value<A> simd_broadcast_first(const A& a, int line = __builtin_LINE()) {
  return msl::gather("simd_broadcast_first", line, a)[0];
}
template <class A>
msl::value<A> simd_shuffle_xor(const A& a, ushort mask, int line = __builtin_LINE()) {
  auto lanes = msl::gather("simd_shuffle_xor", line, a);
  return msl::from_lane("simd_shuffle_xor", line, lanes, msl::here().lane() ^ mask);
}
// Lanes that no other lane is moved to keep their own value.
template <class A>
msl::value<A> simd_shuffle_up(const A& a, ushort delta, int line = __builtin_LINE()) {
  auto lanes = msl::gather("simd_shuffle_up", line, a);
  unsigned lane = msl::here().lane();
  return lanes[lane < delta ? lane : lane - delta];
}
template <class A>
msl::value<A> simd_shuffle_down(const A& a, ushort delta, int line = __builtin_LINE()) {
  auto lanes = msl::gather("simd_shuffle_down", line, a);
  unsigned lane = msl::here().lane();
  return lanes[lane + delta < msl::here().lanes() ? lane + delta : lane];
}
template <class A>
msl::value<A> simd_shuffle_rotate_up(const A& a, ushort delta, int line = __builtin_LINE()) {
  auto lanes = msl::gather("simd_shuffle_rotate_up", line, a);
  unsigned from = (msl::here().lane() - delta) % msl::simd_width;
  return msl::from_lane("simd_shuffle_rotate_up", line, lanes, from);
}
template <class A>
msl::value<A> simd_shuffle_rotate_down(const A& a, ushort delta, int line = __builtin_LINE()) {
  auto lanes = msl::gather("simd_shuffle_rotate_down", line, a);
  unsigned from = (msl::here().lane() + delta) % msl::simd_width;
  return msl::from_lane("simd_shuffle_rotate_down", line, lanes, from);
}

struct simd_vote {
  typedef ulong vote_t;
  vote_t bits;

  explicit simd_vote(vote_t bits) : bits(bits) {}
  explicit operator vote_t() const { return bits; }
  bool any() const { return bits != 0; }
  bool all() const { return bits == (vote_t(1) << msl::here().lanes()) - 1; }
};

inline simd_vote simd_ballot(bool vote, int line = __builtin_LINE()) {
  auto lanes = msl::gather("simd_ballot", line, vote);
  simd_vote::vote_t bits = 0;
  for (unsigned i = 0; i < msl::here().lanes(); ++i) bits |= simd_vote::vote_t(lanes[i]) << i;
  return simd_vote(bits);
}
inline bool simd_all(bool vote, int line = __builtin_LINE()) {
  return simd_ballot(vote, line).all();
}
inline bool simd_any(bool vote, int line = __builtin_LINE()) {
  return simd_ballot(vote, line).any();
}
inline bool simd_is_first() { return msl::here().lane() == 0; }

}  // namespace metal
