// What the threads of a simdgroup or threadgroup do together.

namespace metal {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) {
  return mem_flags(int(a) | int(b));
}
void threadgroup_barrier(mem_flags flags);
void simdgroup_barrier(mem_flags flags);

template <class T> T simd_sum(T x);
template <class T> T simd_product(T x);
template <class T> T simd_min(T x);
template <class T> T simd_max(T x);
template <class T> T simd_and(T x);
template <class T> T simd_or(T x);
template <class T> T simd_xor(T x);
template <class T> T simd_prefix_inclusive_sum(T x);
template <class T> T simd_prefix_exclusive_sum(T x);
template <class T> T simd_prefix_inclusive_product(T x);
template <class T> T simd_prefix_exclusive_product(T x);
template <class T> T simd_shuffle(T x, ushort lane);
template <class T> T simd_shuffle_xor(T x, ushort mask);
template <class T> T simd_shuffle_up(T x, ushort delta);
template <class T> T simd_shuffle_down(T x, ushort delta);
template <class T> T simd_shuffle_rotate_up(T x, ushort delta);
template <class T> T simd_shuffle_rotate_down(T x, ushort delta);
template <class T> T simd_broadcast(T x, ushort lane);
template <class T> T simd_broadcast_first(T x);

struct simd_vote {
  typedef ulong vote_t;
  explicit operator vote_t() const;
  bool any() const;
  bool all() const;
};
simd_vote simd_ballot(bool vote);
bool simd_all(bool vote);
bool simd_any(bool vote);
bool simd_is_first();

template <class T> constexpr __constant bool msl_is_matrix_element = false;
template <> inline constexpr __constant bool msl_is_matrix_element<float> = true;
template <> inline constexpr __constant bool msl_is_matrix_element<half> = true;
template <> inline constexpr __constant bool msl_is_matrix_element<bfloat> = true;

template <class T, int Columns, int Rows> struct simdgroup_matrix {
  static_assert(msl_is_matrix_element<T>, "a simdgroup_matrix holds half, bfloat or float");
  static_assert(Columns == 8 && Rows == 8, "a simdgroup_matrix has 8 rows and 8 columns");
  T own[2];
  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal);
  typename msl_pair<T>::type& thread_elements();
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int Columns, int Rows, class V>
simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(V value);
template <class T, int Columns, int Rows, class V>
simdgroup_matrix<T, Columns, Rows> make_diagonal_simdgroup_matrix(V value);

#define MSL_SPACE(SPACE)                                                                \
  template <class T>                                                                    \
  void simdgroup_load(simdgroup_matrix<T, 8, 8>& matrix, const SPACE T* from, \
                      ulong stride = 8, ulong2 origin = 0, bool transposed = false);    \
  template <class T>                                                                    \
  void simdgroup_store(const simdgroup_matrix<T, 8, 8>& matrix, SPACE T* to,  \
                       ulong stride = 8, ulong2 origin = 0, bool transposed = false);
MSL_SPACE(__global)
MSL_SPACE(__local)
#undef MSL_SPACE

template <class D, class T> constexpr __constant bool msl_may_sum = false;
template <class T> constexpr __constant bool msl_may_sum<T, T> = true;
template <> inline constexpr __constant bool msl_may_sum<float, half> = true;
template <> inline constexpr __constant bool msl_may_sum<float, bfloat> = true;

template <class D, class T>
void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d,
                                   const simdgroup_matrix<T, 8, 8>& a,
                                   const simdgroup_matrix<T, 8, 8>& b,
                                   const simdgroup_matrix<D, 8, 8>& c) {
  static_assert(msl_may_sum<D, T>, "the sum of products is of their type, or of float");
}
template <class D, class T>
void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d,
                        const simdgroup_matrix<T, 8, 8>& a,
                        const simdgroup_matrix<T, 8, 8>& b) {
  static_assert(msl_may_sum<D, T>, "the sum of products is of their type, or of float");
}

}  // namespace metal
