// Vectors of the width this translation unit was compiled for, and the few functions on them.
// Everything lives in an anonymous namespace: the same header is compiled once per instruction
// set, and a shared inline function could otherwise be linked from the wrong one.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

// Pieces of memory that a thread has done with, for its next call: a call on few rows needs a dozen
// of them, and to ask the system for each would cost more than the rows. Sizes are powers of two.
class Pieces {
 public:
  ~Pieces() {
    for (int k = 0; k < kSizes; ++k)
      while (count_[k]) free(kept_[k][--count_[k]]);
  }
  // A piece of at least so many bytes; `size` is what gives it back.
  void* take(size_t bytes, int& size) {
    for (size = 0; size < kSizes && bytes > at_least(size);) ++size;
    if (size < kSizes && count_[size]) return kept_[size][--count_[size]];
    return ::operator new(size < kSizes ? at_least(size) : bytes, std::align_val_t{64});
  }
  void give(void* piece, int size) {
    if (size < kSizes && count_[size] < kMost)
      kept_[size][count_[size]++] = piece;
    else
      free(piece);
  }

 private:
  static void free(void* piece) { ::operator delete(piece, std::align_val_t{64}); }
  static constexpr int kSizes = 14, kMost = 4;  // from 64 bytes to half a megabyte
  static constexpr size_t at_least(int size) { return size_t{64} << size; }
  void* kept_[kSizes][kMost] = {};
  int count_[kSizes] = {};
};

inline Pieces& pieces() {
  thread_local Pieces own;
  return own;
}

// Zeroed memory that frees itself.
template <class T>
struct Memory {
  explicit Memory(int64_t n) {
    const size_t bytes = (n > 0 ? static_cast<size_t>(n) : 1) * sizeof(T);
    data = static_cast<T*>(pieces().take(bytes, size_));
    std::memset(static_cast<void*>(data), 0, bytes);
  }
  ~Memory() { pieces().give(data, size_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  T* data;

 private:
  int size_;
};

// One object in such a piece, for what is too large for the stack.
template <class T>
class Placed {
 public:
  template <class... Args>
  explicit Placed(const Args&... args) : at_(pieces().take(sizeof(T), size_)) {
    try {
      new (at_) T(args...);
    } catch (...) {
      pieces().give(at_, size_);
      throw;
    }
  }
  ~Placed() {
    get().~T();
    pieces().give(at_, size_);
  }
  Placed(const Placed&) = delete;
  T& operator*() { return get(); }

 private:
  T& get() { return *static_cast<T*>(at_); }
  int size_;
  void* at_;
};

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

typedef float VecF __attribute__((vector_size(kBytes)));
typedef double VecD __attribute__((vector_size(kBytes)));
typedef int32_t IntF __attribute__((vector_size(kBytes)));
typedef int64_t IntD __attribute__((vector_size(kBytes)));

template <class T>
struct Simd;
template <>
struct Simd<float> {
  using Vec = VecF;
  using Int = IntF;
  static constexpr int width = kBytes / 4;
};
template <>
struct Simd<double> {
  using Vec = VecD;
  using Int = IntD;
  static constexpr int width = kBytes / 8;
};

template <class V, class T>
inline V load(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof(V));
  return v;
}

template <class V, class T>
inline void store(T* p, V v) {
  std::memcpy(p, &v, sizeof(V));
}

template <class V, class T>
inline V broadcast(T x) {
  return x - V{};
}

template <class V>
inline V larger(V a, V b) {
  return a > b ? a : b;
}

// a + u where `which` holds, a elsewhere.
template <class V, class I, class T>
inline V plus_where(V a, I which, T u) {
  if constexpr (kBytes == 64)
    return which ? a + u : a;  // one operation, masked
  else
    return a + (V)(which & (I)broadcast<V>(u));
}

// Without the sign's bit: one operation, where a comparison and a choice would be three.
inline VecF magnitude(VecF a) { return (VecF)((IntF)a & INT32_MAX); }
inline VecD magnitude(VecD a) { return (VecD)((IntD)a & INT64_MAX); }

// The sum of N lanes by halves, in double precision.
template <class T, int N>
inline double sum_halves(const T* v) {
  if constexpr (N == 2) {
    return static_cast<double>(v[0]) + static_cast<double>(v[1]);
  } else {
    typedef T Half __attribute__((vector_size(N / 2 * sizeof(T))));
    typedef double Wide __attribute__((vector_size(N / 2 * sizeof(double))));
    const Wide sum = __builtin_convertvector(load<Half>(v), Wide) +
                     __builtin_convertvector(load<Half>(v + N / 2), Wide);
    double halves[N / 2];
    store(halves, sum);
    return sum_halves<double, N / 2>(halves);
  }
}

template <class T>
inline double sum_lanes(typename Simd<T>::Vec v) {
  T lanes[Simd<T>::width];
  store(lanes, v);
  return sum_halves<T, Simd<T>::width>(lanes);
}

// exp(x) for x <= 0, by x = n ln 2 + r, |r| <= ln 2 / 2, and a polynomial in r: the series' first
// terms (float), or 1 + r + ... with the least largest relative error, 4e-18 before rounding
// (double). Relative error below 3e-7 (float) and 4e-16 (double); 0 where the result would be
// denormal.
inline VecF vexp(VecF x) {
  const VecF low = broadcast<VecF>(-87.0f);
  const IntF alive = x > low;
  x = alive ? x : low;
  const VecF magic = broadcast<VecF>(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const VecF shifted = x * 1.44269504088896341f + magic;
  const VecF n = shifted - magic;
  VecF r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  VecF p = broadcast<VecF>(1.3888889e-3f);
  p = p * r + 8.3333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const IntF bits = ((IntF)shifted - (IntF)magic) << 23;
  return (VecF)(((IntF)p + bits) & alive);
}

inline VecD vexp(VecD x) {
  const VecD low = broadcast<VecD>(-708.0);
  const IntD alive = x > low;
  x = alive ? x : low;
  const VecD magic = broadcast<VecD>(6755399441055744.0);  // 1.5 * 2^52
  const VecD shifted = x * 1.4426950408889634074 + magic;
  const VecD n = shifted - magic;
  VecD r = x - n * 6.93147180369123816490e-01;
  r = r - n * 1.90821492927058770002e-10;
  VecD p = broadcast<VecD>(2.4999656016649182715e-08);
  p = p * r + 2.7630263501320549442e-07;
  p = p * r + 2.7557587498678542485e-06;
  p = p * r + 2.4801493049487171114e-05;
  p = p * r + 1.9841269505566207296e-04;
  p = p * r + 1.3888888943685818532e-03;
  p = p * r + 8.333333333494759968e-03;
  p = p * r + 4.1666666666529911406e-02;
  p = p * r + 1.666666666666641248e-01;
  p = p * r + 5.0000000000000106604e-01;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const IntD bits = ((IntD)shifted - (IntD)magic) << 52;
  return (VecD)(((IntD)p + bits) & alive);
}

inline double dot(const double* a, const double* b, int64_t n) {
  constexpr int W = Simd<double>::width;
  VecD s0 = VecD{}, s1 = VecD{};
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    s0 = s0 + load<VecD>(a + i) * load<VecD>(b + i);
    s1 = s1 + load<VecD>(a + i + W) * load<VecD>(b + i + W);
  }
  double s = sum_lanes<double>(s0 + s1);
  for (; i < n; ++i) s += a[i] * b[i];
  return s;
}

}  // namespace
