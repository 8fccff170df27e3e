// Exponential weights with fixed share, one trial.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>

namespace onkel {

// A trial's mean loss, and what that exceeds the mixed loss by.
struct Shared {
  double mean, gap;
};

// Moves the weights `w` of m members by their losses.
inline Shared share_step(const double* loss, size_t m, double rate, double share, double* w) {
  double total = 0, mean = 0, least = HUGE_VAL;  // of those that count: nothing overflows
  for (size_t i = 0; i < m; ++i) {
    mean += w[i] * loss[i];
    if (w[i] > 0) least = std::min(least, loss[i]);
  }
  for (size_t i = 0; i < m; ++i)
    total += w[i] *= w[i] > 0 ? std::exp(-rate * (loss[i] - least)) : 0;
  const double gap = mean - least + std::log(total) / rate;
  for (size_t i = 0; i < m; ++i)
    w[i] = (1 - share) * (w[i] / total) + share / static_cast<double>(m);
  return {mean, gap};
}

}  // namespace onkel
