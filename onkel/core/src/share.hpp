// Exponential weights with fixed share, one trial.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>

namespace onkel {

// Moves the weights `w` of m members by their losses; `before` are those that the trial was met
// with. Returns what the mean loss exceeds the mixed loss by.
inline double share_step(const double* loss, size_t m, double rate, double share, double* w,
                         double* before) {
  double total = 0, mean = 0, least = HUGE_VAL;  // of those that count: nothing overflows
  for (size_t i = 0; i < m; ++i) {
    before[i] = w[i];
    mean += w[i] * loss[i];
    if (w[i] > 0) least = std::min(least, loss[i]);
  }
  for (size_t i = 0; i < m; ++i)
    total += w[i] *= w[i] > 0 ? std::exp(-rate * (loss[i] - least)) : 0;
  const double gap = mean - least + std::log(total) / rate;
  for (size_t i = 0; i < m; ++i)
    w[i] = (1 - share) * (w[i] / total) + share / static_cast<double>(m);
  return gap;
}

}  // namespace onkel
