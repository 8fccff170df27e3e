// Weights of codes as Python hands them over (onkel/core/records.py), and where each code's stand.
#pragma once
#include "bind.hpp"

namespace seam {

// A whole number from 0 to less than kCodes.
inline bool is_code(double code) {
  return code >= 0 && code < onkel::kCodes && code == std::floor(code);
}

// The bucket of a code of a column; -1 of what is missing, or is no code.
inline int32_t bucket_of(int64_t column, double code, int64_t buckets) {
  if (!(code >= 1 && code < onkel::kCodes)) return -1;
  const uint64_t value = static_cast<uint64_t>(code);
  uint64_t key = ((static_cast<uint64_t>(column) << 24 | value) + 1) * 0x9E3779B97F4A7C15u;
  key ^= key >> 32;
  key *= 0xD6E8FEB86659FD93u;
  key ^= key >> 32;
  return static_cast<int32_t>(key & static_cast<uint64_t>(buckets - 1));
}

inline void require_buckets(int64_t n) {
  require(n > 0 && n <= (int64_t{1} << 30) && (n & (n - 1)) == 0,
          "the number of buckets must be a power of two");
}

// The buckets of the first `count` columns of rows that are `width` wide.
inline void fill_buckets(const double* x, int64_t rows, int64_t width, int64_t count,
                         int64_t buckets, int32_t* at) {
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t j = 0; j < count; ++j) at[t * count + j] = bucket_of(j, x[t * width + j], buckets);
}

// A table for each output, changed in place.
struct CodeTable {
  CodeTable(int64_t count, const Out<double>& weights, const Out<double>& past,
            const Out<double>& marks)
      : codes(count), weights(weights), past(past), marks(marks) {
    require(count >= 0, "codes of a row cannot be fewer than none");
    require(weights.ndim() == 2, "weights of codes must be [buckets][columns]");
    require_buckets(buckets());
    require(has(past, 0) || past.size() == weights.size(), "past must be as large as weights");
    require(has(marks, 2 * columns()), "two marks per output");
  }
  int64_t count() const { return codes; }
  int64_t buckets() const { return whole(weights.shape(0)); }
  int64_t columns() const { return whole(weights.shape(1)); }
  bool averages() const { return past.size() > 0; }
  onkel::Codes view(const int32_t* at) const {
    return {count(),     buckets(), columns(),      buckets(),
            true,        at,        weights.data(), averages() ? past.data() : nullptr,
            marks.data()};
  }

  int64_t codes;  // of a row
  Out<double> weights, past, marks;
};

}  // namespace seam
