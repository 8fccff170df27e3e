// The units in which a detector sees rows: running moments, and the metric made of them. The
// readable form is onkel/core/numpy_metric.py.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "api.hpp"
#include "simd.hpp"

namespace {

using onkel::Density;
using onkel::DensityPlan;

constexpr double kLeastSpread = 1e-8;  // of a number, as a share of its size
constexpr double kReach = 1e4;         // most that a coordinate counts

// Rows, their steps and their late means have moments each; the metric is that of the last refresh.
enum Kind { kRows = 0, kSteps = 1, kLate = 2 };

struct Metric {
  const DensityPlan& plan;
  Density& s;
  int64_t d;
  bool full;  // whether whole covariances are kept
  std::vector<double> centered;

  Metric(const DensityPlan& plan, Density& s)
      : plan(plan),
        s(s),
        d(s.d),
        full(s.ranks > 1 || s.d == 1),
        centered(static_cast<size_t>(s.d)) {}

  double* real(int at) { return s.real + at; }
  int64_t& whole(int at) { return s.whole[at]; }

  double* mean_of(int kind) { return s.mean + kind * d; }
  double* cov_of(int kind) { return s.cov + kind * s.ranks * d; }
  double variance(int kind, int64_t j) { return cov_of(kind)[full ? j * d + j : j]; }

  // Means and variances of rows as they are.
  void tell_usual(double* to) {
    std::copy_n(mean_of(kRows), d, to);
    for (int64_t j = 0; j < d; ++j) to[d + j] = variance(kRows, j);
  }

  // One row into running moments that fade; `clipped` bounds what it may move them by.
  void enter(int kind, int mass, const double* x, double weight, bool clipped) {
    double& seen = *real(mass);
    seen = seen * (1 - weight / plan.memory) + weight;
    const double a = weight / seen;
    double *m = mean_of(kind), *c = cov_of(kind);
    for (int64_t j = 0; j < d; ++j) {
      double e = x[j] - m[j];
      const double most = 3 * std::sqrt(variance(kind, j));
      if (clipped && most > 0) e = std::max(-most, std::min(e, most));
      centered[static_cast<size_t>(j)] = e;
      m[j] += a * e;
    }
    const double* e = centered.data();
    for (int64_t i = 0; i < (full ? d : 1); ++i)
      for (int64_t j = 0; j < d; ++j) {
        double& to = c[i * d + j];
        to = (1 - a) * (to + a * e[full ? i : j] * e[j]);
      }
  }

  // Units and whitening as the moments have them now.
  void take_metric(int kind, double rows) {
    double *center = s.center + kind * d, *scale = s.scale + kind * d;
    for (int64_t j = 0; j < d; ++j) {
      center[j] = mean_of(kind)[j];
      scale[j] = std::max({std::sqrt(variance(kind, j)), kLeastSpread * s.size[j], 1e-300});
    }
    if (!full) return;
    std::vector<double> factor(static_cast<size_t>(d * d));
    cholesky(cov_of(kind), scale, rows, factor.data());
    invert(factor.data(), s.turn + kind * d * d);
  }

  // L with L L' = the correlations, shrunken by the number of rows; the lower triangle is written.
  void cholesky(const double* c, const double* scale, double rows, double* l) const {
    const double dd = static_cast<double>(d);
    const double shrink = std::max({0.05, dd / (dd + 500), dd / (dd + rows)});
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double sum = i == j ? 1 + 1e-9 : (1 - shrink) * (c[i * d + j] / scale[i] / scale[j]);
        for (int64_t k = 0; k < j; ++k) sum -= l[i * d + k] * l[j * d + k];
        l[i * d + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / l[j * d + j];
      }
  }

  // The inverse of a lower triangle, column by column.
  void invert(const double* l, double* t) const {
    std::fill_n(t, d * d, 0.0);
    for (int64_t j = 0; j < d; ++j) {
      t[j * d + j] = 1 / l[j * d + j];
      for (int64_t i = j + 1; i < d; ++i) {
        double sum = 0;
        for (int64_t k = j; k < i; ++k) sum -= l[i * d + k] * t[k * d + j];
        t[i * d + j] = sum / l[i * d + i];
      }
    }
  }

  // What is no number becomes the least: no NaN is ever stored with the terms.
  static double held(double z) { return std::max(-kReach, std::min(z, kReach)); }

  // A row in the units of its kind (null: not asked for), and turned so that correlations vanish.
  void seen_as(int kind, const double* x, float* straight, float* turned) {
    const double *center = s.center + kind * d, *scale = s.scale + kind * d;
    double* z = centered.data();
    for (int64_t j = 0; j < d; ++j) z[j] = held((x[j] - center[j]) / scale[j]);
    if (straight) std::transform(z, z + d, straight, as_float);
    if (!full) std::transform(z, z + d, turned, as_float);
    for (int64_t i = 0; full && i < d; ++i)
      turned[i] = as_float(held(dot(s.turn + (kind * d + i) * d, z, i + 1)));
  }

  static float as_float(double x) { return static_cast<float>(x); }

  // How far the next row is tied to the last one: 0 where order does not matter, 1 where it does.
  double tie() {
    const double rows = std::min(static_cast<double>(whole(onkel::kCountCalm)), plan.memory);
    if (rows < 2) return 0;
    const double noise = (3 + std::sqrt(2 * std::log(static_cast<double>(d)))) / std::sqrt(rows);
    const double *v = s.calm + d, *w = v + d, *fourth = w + d;
    double most = 0;
    for (int64_t j = 0; j < d; ++j) {
      if (!(std::sqrt(v[j]) > kLeastSpread * s.size[j])) continue;
      const double heavy = std::sqrt(std::max(fourth[j] / (v[j] * v[j]) / 3, 1.0));
      most = std::max(most, 1 - w[j] / (2 * v[j]) - noise * heavy);
    }
    return std::max(0.0, std::min((most - 0.1) / 0.2, 1.0));
  }

  // Rows that follow one another without an alert: their mean, variance, step and fourth moment.
  void take_calm(const double* x, const double* step) {
    const double n = static_cast<double>(++whole(onkel::kCountCalm));
    const double a = 1 / std::min(n, plan.memory);
    double *m = s.calm, *v = m + d, *w = v + d, *fourth = w + d;
    for (int64_t j = 0; j < d; ++j) {
      const double e = x[j] - m[j], e2 = e * e, r = step[j];
      m[j] += a * e;
      v[j] = (1 - a) * (v[j] + a * e2);
      w[j] += a * (r * r - w[j]);
      fourth[j] = (1 - a) * (fourth[j] + a * e2 * e2);
    }
  }
};

}  // namespace
