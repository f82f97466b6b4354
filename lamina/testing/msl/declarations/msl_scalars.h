// bfloat, and vectors of all types.

// Members without an address space are for objects anywhere but in constant memory.
struct bfloat {
  ushort bits;
  bfloat() = default;
  bfloat(const bfloat& from) = default;
  bfloat(const __constant bfloat& from);
  template <class T> explicit bfloat(T value);
  operator float() const;
  operator float() const __constant;
  bfloat& operator=(const bfloat& from) = default;
};
#define MSL_OPERATOR(OP) bfloat operator OP(bfloat a, bfloat b);
MSL_OPERATOR(+) MSL_OPERATOR(-) MSL_OPERATOR(*) MSL_OPERATOR(/)
#undef MSL_OPERATOR
bfloat operator-(bfloat a);

#define MSL_OPERATOR(OP)                    \
  bfloat& operator OP(bfloat& a, bfloat b); \
  bfloat& operator OP(bfloat& a, int b);
MSL_OPERATOR(+=) MSL_OPERATOR(-=) MSL_OPERATOR(*=) MSL_OPERATOR(/=)
#undef MSL_OPERATOR
constexpr half operator""h(long double value) { return half(float(value)); }
constexpr half operator""h(unsigned long long value) { return half(float(value)); }
bfloat operator"" bf(long double value);

namespace metal {
template <class T, int N> using vec = T __attribute__((ext_vector_type(N)));

template <class A> constexpr __constant int msl_length = 1;
template <class T, int N>
constexpr __constant int msl_length<T __attribute__((ext_vector_type(N)))> = N;

template <class V, int N, class... A> V msl_vector(A... parts) {
  static_assert((msl_length<A> + ...) == N || (sizeof...(A) == 1 && (msl_length<A> + ...) == 1),
                "a vector is made of as many components as it has, or of one");
  return V();
}

#define MSL_MAKE(T, N)                                    \
  template <class... A> T##N msl_##T##N(A... parts) {     \
    return msl_vector<T##N, N>(parts...);                 \
  }
#define MSL_MAKES(T) MSL_MAKE(T, 2) MSL_MAKE(T, 3) MSL_MAKE(T, 4)
#define MSL_VECTORS(T)                                    \
  typedef T T##2 __attribute__((ext_vector_type(2)));     \
  typedef T T##3 __attribute__((ext_vector_type(3)));     \
  typedef T T##4 __attribute__((ext_vector_type(4)));     \
  MSL_MAKES(T)
// Comparisons of vectors of 32 bits give these here.
typedef int bool2 __attribute__((ext_vector_type(2)));
typedef int bool3 __attribute__((ext_vector_type(3)));
typedef int bool4 __attribute__((ext_vector_type(4)));
MSL_MAKES(bool)
MSL_VECTORS(char)
MSL_VECTORS(uchar)
MSL_VECTORS(short)
MSL_VECTORS(ushort)
MSL_VECTORS(int)
MSL_VECTORS(uint)
MSL_VECTORS(long)
MSL_VECTORS(ulong)
MSL_VECTORS(half)
MSL_VECTORS(float)
#undef MSL_VECTORS

template <class T, int N> struct msl_named;
template <class T> struct msl_named<T, 2> {
  union {
    T data[2];
    struct { T x, y; };
  };
};
template <class T> struct msl_named<T, 3> {
  union {
    T data[3];
    struct { T x, y, z; };
  };
};
template <class T> struct msl_named<T, 4> {
  union {
    T data[4];
    struct { T x, y, z, w; };
  };
};

template <class T, int N> struct msl_wide {
  typedef vec<T, N> type;
};

// A vector that lies at any multiple of its element's size.
template <class T, int N> struct packed_vec : msl_named<T, N> {
  using msl_named<T, N>::data;
  typedef typename msl_wide<T, N>::type wide;
  packed_vec() = default;
  packed_vec(const packed_vec& from) = default;
  packed_vec(const __constant packed_vec& from);
  packed_vec(wide from);
  template <class A, class B, class... More> packed_vec(A a, B b, More... more);
  operator wide() const;
  operator wide() const __constant;
  packed_vec& operator=(const packed_vec& from) = default;
  T& operator[](int i);
  const T& operator[](int i) const;
  const __constant T& operator[](int i) const __constant;
};

// The compiler has no vectors of bfloat: these have components, but no choices of them.
struct msl_none {};
template <int N> struct msl_wide<bfloat, N> {
  typedef msl_none type;
};
typedef packed_vec<bfloat, 2> bfloat2;
typedef packed_vec<bfloat, 3> bfloat3;
typedef packed_vec<bfloat, 4> bfloat4;
template <int N> constexpr __constant int msl_length<packed_vec<bfloat, N>> = N;
MSL_MAKES(bfloat)
#undef MSL_MAKES
#undef MSL_MAKE

template <class T> struct msl_pair {
  typedef vec<T, 2> type;
};
template <> struct msl_pair<bfloat> {
  typedef bfloat2 type;
};
}  // namespace metal
