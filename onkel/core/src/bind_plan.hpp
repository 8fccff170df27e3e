// Rates of the trials to come, asked for many at once where rows come singly.
#pragma once
#include "bind.hpp"

namespace seam {

// eta and lam of trials first, first + 1, ..., [members][trials].
struct Plan {
  void set(int64_t start, const In<double>& rates, const In<double>& lams, int64_t members) {
    require(rates.ndim() == 2 && whole(rates.shape(0)) == members && lams.size() == rates.size(),
            "one rate per member and trial");
    first = start;
    eta.assign(rates.data(), rates.data() + rates.size());
    lam.assign(lams.data(), lams.data() + lams.size());
    trials = whole(rates.shape(1));
  }
  bool holds(int64_t t) const { return t >= first && t < first + trials; }
  int64_t count() const { return trials; }

  int64_t first = 0, trials = 0;
  std::vector<double> eta, lam;
};

}  // namespace seam
