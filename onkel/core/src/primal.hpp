// Primal: weights instead of terms. theta <- c (shrink theta + coef x), w = link(theta), one row
// after another in O(d). The readable form is onkel/core/numpy_core.py.
#pragma once
#include <cmath>

#include "api.hpp"
#include "rules.hpp"
#include "simd.hpp"

namespace {

using onkel::PrimalInput;
using onkel::PrimalOutput;

inline double largest(const double* a, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double size = std::fabs(a[i]);
    if (size > most) most = size;
  }
  return most;
}

// ||a||_p, the largest component divided out first: large p neither overflows nor vanishes.
inline double norm_p(const double* a, int64_t n, double p) {
  const double most = largest(a, n);
  if (!(most > 0)) return 0;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double r = a[i] / most;
    sum += p == 2 ? r * r : std::pow(std::fabs(r), p);
  }
  return most * (p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p));
}

// w_i = sign(theta_i) |theta_i|^(p-1) / ||theta||_p^(p-2), 0 at theta = 0.
inline void link(const double* theta, int64_t d, double p, double* w) {
  const double most = largest(theta, d);
  double sum = 0;
  for (int64_t i = 0; i < d; ++i) {
    w[i] = most > 0 ? std::pow(std::fabs(theta[i]) / most, p - 1) : 0;
    sum += most > 0 ? w[i] * std::fabs(theta[i]) / most : 0;
  }
  const double size = most > 0 ? most / std::pow(sum, (p - 2) / p) : 0;
  for (int64_t i = 0; i < d; ++i) w[i] = std::copysign(size * w[i], theta[i]);
}

// One output of one row; `w` is scratch for the link.
inline void primal_step(const PrimalInput& in, PrimalOutput& out, int64_t t, int64_t c, double kxx,
                        double* w) {
  const int64_t at = t * in.columns + c, d = in.d;
  double* s = out.state + c * onkel::kFields;
  double* theta = out.theta + c * (d + 1);
  double* total = in.average ? out.total + c * (d + 1) : nullptr;
  const double* x = in.x + t * d;
  if (std::isnan(in.y[at])) {  // an output that is not there yet
    out.score[at] = 0;
    out.limit[at] = limit_of(in.loss, s);
    if (total) out.mean_score[at] = 0;
    return;
  }
  if (in.p != 2) link(theta, d, in.p, w);
  const double* use = in.p == 2 ? theta : w;
  const double f = dot(use, x, d);
  out.score[at] = f + s[onkel::kFieldOffset];
  out.limit[at] = limit_of(in.loss, s);
  if (total) {
    out.mean_score[at] = mean_of(in.loss, s, dot(total, x, d), out.limit + at);
    for (int64_t i = 0; i < d; ++i) total[i] += use[i];
    total[d] += theta[d];
  }
  const Trial trial{f, in.y[at], kxx, in.eta[t], in.lam[t], in.weight[t]};
  const Move m = decide(in.loss, in.rule, in.p, in.intercept, in.needs_norm, trial, s);
  for (int64_t i = 0; i < d; ++i) theta[i] = m.shrink * theta[i] + m.coef * x[i];
  theta[d] = m.shrink * theta[d] + m.coef;
  if (in.needs_norm) {
    double norm = norm_p(theta, d, in.p);
    if (norm > m.radius) {
      for (int64_t i = 0; i <= d; ++i) theta[i] *= m.radius / norm;
      norm = m.radius;
    }
    s[onkel::kFieldNorm2] = norm * norm;
  }
  if (out.bad_row < 0 && !is_finite(in.rule, s, out.score[at], m.coef, kxx)) out.bad_row = t;
}

void primal(const PrimalInput& in, PrimalOutput& out) {
  Memory<double> w(in.d);
  out.bad_row = -1;
  for (int64_t t = 0; t < in.rows && out.bad_row < 0; ++t) {
    const double size = norm_p(in.x + t * in.d, in.d, in.p);
    for (int64_t c = 0; c < in.columns; ++c) {
      primal_step(in, out, t, c, size * size, w.data);
      const double shown = (in.average ? out.mean_score : out.score)[t * in.columns + c];
      if (!is_sound(out.state + c * onkel::kFields, shown)) out.bad_row = t;
    }
  }
}

}  // namespace
