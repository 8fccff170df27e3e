// Answers of several members and of two joint experts, averaged by weights that follow their losses
// (onkel/core/means.py has the same in NumPy, and the formulas). One row after another.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "share.hpp"
#include "solve.hpp"

namespace onkel {

// What the numbers of core/means.py are called here; a test compares them.
constexpr double kMeansReach = 8, kMeansHorizon = 1000, kMeansPrior = 1, kMeansStep = 0.1,
                 kMeansFar = 3, kMeansFarthest = 1e100;
constexpr size_t kMeansJoint = 2;

// The state: arrays of the caller's.
struct Means {
  size_t members, outputs, experts;
  double rate, share;
  double* weights;  // [experts]
  double* losses;   // [experts]
  double* usual;    // [outputs]
  double* joint;    // [outputs][kMeansJoint][members], by Newton and by gradient
  double* bow;      // [outputs][members][members], curvature of the first; the lower half
  double* said;     // [members], how far each is from the median of late, in usual errors
  double* totals;   // the mixture's loss, what it exceeds the mixed loss by, trials
};

struct MeansRoom {
  explicit MeansRoom(const Means& s)
      : f(s.members),
        sizes(s.members),
        along(s.members),
        found(s.experts),
        loss(s.experts),
        said(s.members),
        room(s.members * (s.members + 2)) {}
  std::vector<double> f, sizes, along, found, loss, said, room;
  double center, unit;
};

inline double median_of(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// All experts' answers to target o, and what the joint ones are made of.
inline void answers_of(const Means& s, const double* scores, size_t o, MeansRoom& r) {
  const size_t m = s.members;
  for (size_t i = 0; i < m; ++i) r.found[i] = r.sizes[i] = scores[i * s.outputs + o];
  r.center = median_of(r.sizes);
  r.unit = s.usual[o] > 0 ? s.usual[o] : 1;
  for (size_t i = 0; i < m; ++i)
    r.f[i] = std::clamp((r.found[i] - r.center) / r.unit, -kMeansReach, kMeansReach);
  for (size_t j = 0; j < kMeansJoint && m > 1; ++j) {
    const double* v = s.joint + (o * kMeansJoint + j) * m;
    r.found[m + j] = r.center + r.unit * std::inner_product(v, v + m, r.f.begin(), 0.0);
  }
}

// The weighted mean; answers that are far count as 8 usual errors from the members' median.
inline double mean_of(const Means& s, size_t o, const MeansRoom& r) {
  const double reach = kMeansReach * s.usual[o];
  double sum = 0;
  for (size_t i = 0; i < s.experts; ++i)
    sum += s.weights[i] * std::clamp(r.found[i] - r.center, -reach, reach);
  return r.center + sum;
}

inline void learn_means_joint(const Means& s, size_t o, double target, MeansRoom& r) {
  const size_t m = s.members;
  double *newton = s.joint + o * kMeansJoint * m, *plain = newton + m, *bow = s.bow + o * m * m;
  const auto size = [](double error) {
    return std::min(1.0, kMeansFar / std::max(std::fabs(error), 1e-300));
  };
  const double gap = target - std::inner_product(plain, plain + m, r.f.begin(), 0.0);
  const double all = 1 + std::inner_product(r.f.begin(), r.f.end(), r.f.begin(), 0.0);
  for (size_t i = 0; i < m; ++i) plain[i] += kMeansStep * size(gap) * gap / all * r.f[i];
  const double error = target - std::inner_product(newton, newton + m, r.f.begin(), 0.0);
  const double keep = 1 - 1 / kMeansHorizon;
  for (size_t i = 0; i < m; ++i) {
    r.along[i] = size(error) * error * r.f[i];
    for (size_t j = 0; j <= i; ++j)
      bow[i * m + j] = keep * bow[i * m + j] + size(error) * r.f[i] * r.f[j];
    bow[i * m + i] += (1 - keep) * kMeansPrior;
  }
  solve(bow, m, r.along.data(), r.room.data());
  for (size_t i = 0; i < m; ++i) newton[i] += r.along[i];
}

inline void learn_target(const Means& s, const double* scores, size_t o, double y, double trial,
                         MeansRoom& r) {
  for (size_t i = 0; i < s.members; ++i) r.sizes[i] = std::fabs(scores[i * s.outputs + o] - y);
  double error = median_of(r.sizes);
  if (s.usual[o] > 0) error = std::min(error, kMeansHorizon * s.usual[o]);  // no row rules the rest
  s.usual[o] += (error - s.usual[o]) / trial;
  const double scale = kMeansReach * s.usual[o];
  for (size_t i = 0; scale > 0 && i < s.experts; ++i) {
    const double part = std::min(std::fabs(r.found[i] - y) / scale, 1.0);
    r.loss[i] += part * part / static_cast<double>(s.outputs);
  }
  for (size_t i = 0; i < s.members; ++i)
    r.said[i] += std::fabs(r.f[i]) / static_cast<double>(s.outputs);
  const double target = std::clamp((y - r.center) / r.unit, -kMeansFarthest, kMeansFarthest);
  if (s.members > 1) learn_means_joint(s, o, target, r);
}

// Answers one row, then learns what came.
inline void learn_means(const Means& s, const double* scores, const double* y, MeansRoom& r,
                        double* out) {
  const double trial = std::min(s.totals[2] + 1, kMeansHorizon);
  std::fill(r.loss.begin(), r.loss.end(), 0.0);
  std::fill(r.said.begin(), r.said.end(), 0.0);
  for (size_t o = 0; o < s.outputs; ++o) {
    answers_of(s, scores, o, r);
    out[o] = mean_of(s, o, r);
    learn_target(s, scores, o, y[o], trial, r);
  }
  for (size_t i = 0; i < s.members; ++i) s.said[i] += (r.said[i] - s.said[i]) / trial;
  const Shared shared = share_step(r.loss.data(), s.experts, s.rate, s.share, s.weights);
  for (size_t i = 0; i < s.experts; ++i) s.losses[i] += r.loss[i];
  s.totals[0] += shared.mean;
  s.totals[1] += shared.gap;
  s.totals[2] += 1;
}

inline void look_means(const Means& s, const double* scores, MeansRoom& r, double* out) {
  for (size_t o = 0; o < s.outputs; ++o) {
    answers_of(s, scores, o, r);
    out[o] = mean_of(s, o, r);
  }
}

}  // namespace onkel
