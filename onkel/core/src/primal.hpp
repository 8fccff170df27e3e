// Primal: weights instead of terms. theta <- c (shrink theta + coef x), w = link(theta), one row
// after another in O(d). The readable form is onkel/core/numpy_primal.py.
#pragma once
#include <cmath>

#include "api.hpp"
#include "hashed.hpp"
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

// ||theta|| of numbers and codes together (p = 2).
inline double with_codes(double norm, const Codes& k, int64_t c, const double* s) {
  const double scale = s[onkel::kFieldScale], squares = k.marks[2 * c];
  return std::sqrt(norm * norm + scale * scale * (squares > 0 ? squares : 0));
}

// One output of one row; `w` is scratch for the link, `codes` are the buckets of the row's codes.
// Rows of numbers alone have code of their own: one for both cost them half as much again.
template <bool kCoded>
inline void primal_step(const PrimalInput& in, PrimalOutput& out, int64_t t, int64_t c,
                        const double* x, const int32_t* codes, double kxx, double* w, Undo& undo) {
  const int64_t at = t * in.columns + c, d = in.d;
  const Codes& k = out.codes;
  double* s = out.state + c * onkel::kFields;
  double* theta = out.theta + c * (d + 1);
  double* total = in.average ? out.total + c * (d + 1) : nullptr;
  if (std::isnan(in.y[at])) {  // an output that is not there yet
    out.score[at] = 0;
    out.limit[at] = limit_of(in.loss, s);
    if (total) out.mean_score[at] = 0;
    return;
  }
  if (in.p != 2) link(theta, d, in.p, w);
  const double* use = in.p == 2 ? theta : w;
  double f = dot(use, x, d);
  if (kCoded) f += s[onkel::kFieldScale] * gathered(k, k.weights, c, codes);
  out.score[at] = f + s[onkel::kFieldOffset];
  out.limit[at] = limit_of(in.loss, s);
  if (total) {
    double sum = dot(total, x, d);
    if (kCoded) {
      sum += s[onkel::kFieldScaleSum] * gathered(k, k.weights, c, codes) +
             gathered(k, k.past, c, codes);
      s[onkel::kFieldScaleSum] += s[onkel::kFieldScale];
    }
    out.mean_score[at] = mean_of(in.loss, s, sum, out.limit + at);
    for (int64_t i = 0; i < d; ++i) total[i] += use[i];
    total[d] += theta[d];
  }
  const Trial trial{f, in.y[at], kxx, in.eta[t], in.lam[t], in.weight[t]};
  const Move m = decide(in.loss, in.rule, in.p, in.intercept, in.needs_norm, trial, s);
  for (int64_t i = 0; i < d; ++i) theta[i] = m.shrink * theta[i] + m.coef * x[i];
  theta[d] = m.shrink * theta[d] + m.coef;
  if (kCoded && !move_codes(k, c, codes, m.shrink, m.coef, s, undo)) out.bad_row = t;
  if (in.needs_norm) {
    double norm = norm_p(theta, d, in.p);
    if (kCoded) norm = with_codes(norm, k, c, s);
    if (norm > m.radius) {
      for (int64_t i = 0; i <= d; ++i) theta[i] *= m.radius / norm;
      if (kCoded) s[onkel::kFieldScale] *= m.radius / norm;
      norm = m.radius;
    }
    s[onkel::kFieldNorm2] = norm * norm;
  }
  if (kCoded && k.whole && folds_now(k, c, s)) {
    undo.copy();
    fold(k, c, s);
  }
  if (out.bad_row < 0 && !is_finite(in.rule, s, out.score[at], m.coef, kxx)) out.bad_row = t;
}

template <bool kCoded>
inline void primal_rows(const PrimalInput& in, PrimalOutput& out, Undo& undo) {
  const Codes& k = out.codes;
  Memory<double> w(in.d);
  Memory<uint64_t> seen(kCoded ? k.buckets / 64 + 1 : 0);
  for (int64_t t = 0; t < in.rows && out.bad_row < 0; ++t) {
    const double* x = in.x + t * in.d;
    const int32_t* codes = nullptr;
    if (kCoded) {
      x += (t + 1) * k.count;
      codes = k.at + t * k.count;
      undo.note(codes);
    }
    const double size = norm_p(x, in.d, in.p);
    const double kxx = kCoded ? size * size + length2(k, codes, seen.data) : size * size;
    for (int64_t c = 0; c < in.columns; ++c) {
      primal_step<kCoded>(in, out, t, c, x, codes, kxx, w.data, undo);
      const double shown = (in.average ? out.mean_score : out.score)[t * in.columns + c];
      if (!is_sound(out.state + c * onkel::kFields, shown)) out.bad_row = t;
    }
  }
}

void primal(const PrimalInput& in, PrimalOutput& out) {
  Undo undo(out.codes, in.rows);
  out.bad_row = -1;
  if (!out.codes.count) return primal_rows<false>(in, out, undo);
  primal_rows<true>(in, out, undo);
  bool fine = true;
  for (int64_t i = 0; i < in.columns * (in.d + 1); ++i)
    fine &= std::fabs(out.theta[i]) < onkel::kLargest;
  if (out.bad_row < 0 && !fine) out.bad_row = in.rows - 1;
  if (out.bad_row >= 0) undo.restore();
}

}  // namespace
