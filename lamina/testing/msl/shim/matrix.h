// Matrices that a simdgroup holds together: Metal Shading Language, section 6.7.
#pragma once
#include "simd.h"

namespace metal {

// A matrix of 8 by 8; each lane holds two elements that lie side by side.
template <class T, int Columns, int Rows> struct simdgroup_matrix {
  static_assert(msl::floating<T>, "a simdgroup_matrix holds half, bfloat or float");
  static_assert(Columns == 8 && Rows == 8, "a simdgroup_matrix has 8 rows and 8 columns");
  typedef vec<T, 2> storage_type;
  storage_type own;

  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal) {
    own[0] = T(row() == column() ? float(diagonal) : 0.0f);
    own[1] = T(row() == column() + 1 ? float(diagonal) : 0.0f);
  }
  storage_type& thread_elements() { return own; }

  static unsigned row() { return row(msl::here().lane()); }
  static unsigned column() { return column(msl::here().lane()); }
  static constexpr unsigned row(unsigned lane) { return (lane >> 4) * 4 + (lane >> 1) % 4; }
  static constexpr unsigned column(unsigned lane) {
    return ((lane >> 3) & 1) * 4 + (lane & 1) * 2;
  }
  static constexpr unsigned lane_of(unsigned row, unsigned column) {
    return (row >> 2) * 16 + (column >> 2) * 8 + (row & 3) * 2 + ((column >> 1) & 1);
  }
};

typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int Columns, int Rows, class V>
simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(V value) {
  simdgroup_matrix<T, Columns, Rows> matrix;
  matrix.own = vec<T, 2>(T(value));
  return matrix;
}
template <class T, int Columns, int Rows, class V>
simdgroup_matrix<T, Columns, Rows> make_diagonal_simdgroup_matrix(V value) {
  return simdgroup_matrix<T, Columns, Rows>(T(value));
}

}  // namespace metal

namespace msl {

// Where a matrix lies in memory; all lanes have to say the same.
template <class T> struct Tile {
  T* first;
  ulong stride;
  ulong transposed;

  T& at(int i) const {
    ulong row = metal::simdgroup_matrix<float, 8, 8>::row();
    ulong column = metal::simdgroup_matrix<float, 8, 8>::column() + i;
    return transposed ? first[column * stride + row] : first[row * stride + column];
  }
};

template <class T> Tile<T> tile(T* source, ulong stride, metal::ulong2 origin, bool transposed) {
  return {source + origin.y * stride + origin.x, stride, transposed};
}

template <class T> void agree_on(const char* what, int line, const Tile<T>& mine) {
  if (here().lanes() != simd_width)
    die(line, "%s needs a simdgroup of %u lanes, and this one has %u", what, simd_width,
        here().lanes());
  Lanes<Tile<T>> lanes{exchange(what, line, &mine, sizeof mine)};
  Tile<T> first = lanes[0];
  if (first.first != mine.first || first.stride != mine.stride ||
      first.transposed != mine.transposed)
    die(line, "%s is not told the same by every lane: lane 0 has another place", what);
}

template <class T> metal::vec<T, 2> read(const Tile<const T>& from) {
  metal::vec<T, 2> y;
  y[0] = from.at(0);
  y[1] = from.at(1);
  return y;
}

}  // namespace msl

namespace metal {

// What is read before the lanes meet has to be there after that too.
template <class T>
void simdgroup_load(simdgroup_matrix<T, 8, 8>& matrix, const T* source, ulong stride = 8,
                    ulong2 origin = 0, bool transposed = false, int line = __builtin_LINE()) {
  auto from = msl::tile(source, stride, origin, transposed);
  matrix.own = msl::read<T>(from);
  msl::agree_on("simdgroup_load", line, from);
  auto again = msl::read<T>(from);
  if (__builtin_memcmp(&again, &matrix.own, sizeof again))
    msl::die(line, "simdgroup_load reads what another thread writes meanwhile");
}

// Memory has nothing to rely on until the lanes have met.
template <class T>
void simdgroup_store(const simdgroup_matrix<T, 8, 8>& matrix, T* target, ulong stride = 8,
                     ulong2 origin = 0, bool transposed = false, int line = __builtin_LINE()) {
  auto to = msl::tile(target, stride, origin, transposed);
  for (int i = 0; i < 2; ++i) __builtin_memset(&to.at(i), 0xff, sizeof(T));
  msl::agree_on("simdgroup_store", line, to);
  for (int i = 0; i < 2; ++i) to.at(i) = matrix.own[i];
}

// d = a b + c, summed in float, columns of a from the first to the last.
template <class D, class T, class C>
void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d,
                                   const simdgroup_matrix<T, 8, 8>& a,
                                   const simdgroup_matrix<T, 8, 8>& b,
                                   const simdgroup_matrix<C, 8, 8>& c,
                                   int line = __builtin_LINE()) {
  static_assert(msl::same<D, C>, "simdgroup_multiply_accumulate adds to a matrix of its own type");
  static_assert(msl::same<D, T> || msl::same<D, float>,
                "simdgroup_multiply_accumulate gives the type of its factors, or float");
  typedef simdgroup_matrix<T, 8, 8> Factor;
  struct Pair { vec<T, 2> a, b; } mine{a.own, b.own};
  if (msl::here().lanes() != msl::simd_width)
    msl::die(line, "simdgroup_multiply_accumulate needs a simdgroup of 32 lanes");
  const char* what = "simdgroup_multiply_accumulate";
  msl::Lanes<Pair> lanes{msl::exchange(what, line, &mine, sizeof mine)};
  float sum[2] = {float(c.own[0]), float(c.own[1])};
  for (unsigned k = 0; k < 8; ++k) {
    float x = lanes[Factor::lane_of(Factor::row(), k)].a[k & 1];
    vec<T, 2> y = lanes[Factor::lane_of(k, Factor::column())].b;
    for (int i = 0; i < 2; ++i) sum[i] += x * float(y[i]);
  }
  for (int i = 0; i < 2; ++i) d.own[i] = D(sum[i]);
}

template <class D, class T>
void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<T, 8, 8>& a,
                        const simdgroup_matrix<T, 8, 8>& b, int line = __builtin_LINE()) {
  simdgroup_multiply_accumulate(d, a, b, simdgroup_matrix<D, 8, 8>(D(0.0f)), line);
}

}  // namespace metal
