// Running moments of rows and the frame that rows are seen in, on plain memory: what a learner and
// a fleet's cell share to the last bit. Compiled once, and nothing is fused: the readable forms are
// onkel/scaling.py and onkel/core/frame.py, whose sums alone may differ by rounding.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace onkel {

// Moments that are updated in place. `seen` is the weight of all rows so far, one number per
// column. Where all rows are whole (`plain`) one number stands for all columns; else NaN is a value
// that has not come. Where they are `steady` an absurd value counts as one that widens the spread
// by an eighth.
struct Running {
  int64_t columns;
  double *seen, *mean, *variance;
  double horizon;
  bool plain, steady;
  int64_t seens;  // places of `seen`: one where a number stands for all, or as many as columns

  // Whether a value is absurd: further from the mean than 10 000 spreads (and not rounding).
  static bool absurd(double delta, double mean, double variance) {
    return 1e-8 * delta * delta > variance && variance > 1e-29 * mean * mean;
  }

  // One row (Welford; population variance); `seen` fades by `fade` before it enters.
  template <class T>
  void take(const T* x, double fade) const {
    const int64_t d = columns;
    double *m = mean, *v = variance;
    const auto enter = [&](int64_t j, double share, bool held) {
      double delta = static_cast<double>(x[j]) - m[j];
      if (held && absurd(delta, m[j], v[j]))  // the spread widens by an eighth, or more at first
        delta = std::copysign(std::sqrt(16 + 0.25 / share) * std::sqrt(v[j]), delta);
      const double move = share * delta;
      m[j] += move;
      v[j] = (1.0 - share) * (v[j] + move * delta);
    };
    if (plain && d > 0) {
      const double now = seen[0] * fade + 1.0, share = 1.0 / std::min(now, horizon);
      bool any = false;  // seen to first: the rule is that there is none
      for (int64_t j = 0; steady && j < d; ++j)
        any |= absurd(static_cast<double>(x[j]) - m[j], m[j], v[j]);
      if (any)
        for (int64_t j = 0; j < d; ++j) enter(j, share, true);
      else
        for (int64_t j = 0; j < d; ++j) enter(j, share, false);
      for (int64_t j = 0; j < seens; ++j) seen[j] = now;
      return;
    }
    for (int64_t j = 0; j < d; ++j) {
      seen[j] *= fade;
      if (std::isnan(x[j])) continue;
      seen[j] += 1.0;
      enter(j, 1.0 / std::min(seen[j], horizon), steady);
    }
  }
};

// The coordinates of stored rows: v = (x - center) unit, seen by the kernel as width (v - shift).
// The first columns are codes, which are stored and seen as they are.
struct Coordinates {
  int64_t d, codes;
  const double *center, *unit, *width, *shift;
  double alike;  // what a row's codes add to its squared length
  bool invariant;
  double clip;

  // A row in coordinates of the frame, differences of far values kept finite.
  template <class T>
  void store(const T* x, double* v) const {
    for (int64_t j = 0; j < d; ++j) {
      v[j] = (static_cast<double>(x[j]) - center[j]) * unit[j];
      if (invariant) v[j] = std::min(std::max(v[j], -clip / width[j]), clip / width[j]);
    }
  }

  // The squared length of a stored row as the kernel sees it.
  template <class T>
  double square(const T* v, int64_t stride = 1) const {
    double sum = 0;
    for (int64_t j = codes; j < d; ++j) {
      const double z = width[j] * (static_cast<double>(v[j * stride]) - shift[j]);
      sum += z * z;
    }
    return codes ? sum + alike : sum;
  }

  // A stored row made ready for kernel values: q, and what its products lack.
  template <class T>
  T query(const double* v, T* q) const {
    double off = 0;
    for (int64_t j = 0; j < d; ++j) {
      const double z = j < codes ? v[j] : width[j] * (v[j] - shift[j]);
      const double w = j < codes ? z : width[j] * z;
      off += w * shift[j];
      q[j] = static_cast<T>(w);
    }
    return static_cast<T>(-off);
  }

  // Whether a row is near the recent ones [count][d] but far from the centre; then `center_at` is
  // where the centre should be, in coordinates of the frame.
  bool left_behind(const double* v, const double* recent, int64_t count, double* center_at) const {
    double far = 0;
    for (int64_t j = codes; j < d; ++j) far += (width[j] * v[j]) * (width[j] * v[j]);
    std::vector<double> near(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int64_t j = codes; j < d; ++j) {
        const double gap = width[j] * (v[j] - recent[i * d + j]);
        sum += gap * gap;
      }
      near[static_cast<size_t>(i)] = sum;
    }
    if (!(far > 16.0 * median(near))) return false;
    for (int64_t j = 0; j < d; ++j) {
      for (int64_t i = 0; i < count; ++i) near[static_cast<size_t>(i)] = recent[i * d + j];
      center_at[j] = median(near);
    }
    return true;
  }

  // The middle of some numbers, which are put into another order.
  static double median(std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2) return *middle;
    return (*std::max_element(values.begin(), middle) + *middle) / 2;
  }
};

}  // namespace onkel
