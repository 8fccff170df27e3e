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
constexpr double kMeansReach = 8, kMeansHorizon = 1000, kMeansRecent = 100, kMeansRow = 1000,
                 kMeansWide = 64, kMeansBetter = 64, kMeansPrior = 1, kMeansStep = 0.1,
                 kMeansFar = 3, kMeansFarthest = 1e100, kMeansLargest = 1e150;
constexpr size_t kMeansJoint = 2;

// The state: arrays of the caller's.
struct Means {
  size_t members, outputs, experts;
  double rate, share;
  double* weights;  // [experts]
  double* losses;   // [experts]
  double* usual;    // [outputs], the members' median error
  double* own;      // [outputs], the mixture's error
  double* squares;  // [outputs][experts], squared errors of late
  double* joint;    // [outputs][kMeansJoint][members], by Newton and by gradient
  double* bow;      // [outputs][members][members], curvature of the first; the lower half
  double* totals;   // the mean loss, what exceeds the mixed loss of it, trials
};

struct MeansRoom {
  explicit MeansRoom(const Means& s)
      : f(s.members),
        sizes(s.members),
        along(s.members),
        found(s.experts),
        sure(s.experts),
        parts(s.experts),
        loss(s.experts),
        room(s.members * (s.members + 2)) {}
  std::vector<double> f, sizes, along, found, sure, parts, loss, room;
  double center, unit, reach;
};

inline double median_of(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// What each expert counts for: weights over squared errors, in units of the least of those that
// count; nobody counts as more than 64 times better than the mixture.
inline void parts_of(const Means& s, size_t o, MeansRoom& r) {
  const double* squares = s.squares + o * s.experts;
  const double better = std::min(s.own[o], kMeansLargest) / kMeansBetter;
  double least = HUGE_VAL, all = 0;
  for (size_t i = 0; i < s.experts; ++i) {
    r.sure[i] = std::max(squares[i], better * better);
    if (s.weights[i] > 0) least = std::min(least, r.sure[i]);
  }
  for (size_t i = 0; i < s.experts; ++i)
    all += r.parts[i] = s.weights[i] * (r.sure[i] > least ? least / r.sure[i] : 1);
  for (double& part : r.parts) part /= all;
}

// The members' median, moved to within u of their mean by parts; in that mean none is further than
// 64 usual errors from the median.
inline double center_of(const Means& s, size_t o, MeansRoom& r) {
  const double plain = median_of(r.sizes), far = kMeansWide * s.usual[o];
  double moved = 0, mass = 0;
  for (size_t i = 0; i < s.members; ++i) {
    moved += r.parts[i] * std::clamp(r.found[i] - plain, -far, far);
    mass += r.parts[i];
  }
  const double mean = mass > 0 ? moved / mass : 0;
  return plain + mean + std::clamp(-mean, -s.own[o], s.own[o]);
}

// All experts' answers to target o, and what the joint ones are made of.
inline void answers_of(const Means& s, const double* scores, size_t o, MeansRoom& r) {
  const size_t m = s.members;
  for (size_t i = 0; i < m; ++i) r.found[i] = r.sizes[i] = scores[i * s.outputs + o];
  parts_of(s, o, r);
  r.center = center_of(s, o, r);
  r.reach = kMeansReach * std::max(s.own[o], s.usual[o]);
  r.unit = std::max(s.own[o], s.usual[o] / kMeansBetter);
  if (!(r.unit > 0)) r.unit = 1;
  for (size_t i = 0; i < m; ++i)
    r.f[i] = std::clamp(r.found[i] - r.center, -r.reach, r.reach) / r.unit;
  for (size_t j = 0; j < kMeansJoint && m > 1; ++j) {
    const double* v = s.joint + (o * kMeansJoint + j) * m;
    r.found[m + j] = r.center + r.unit * std::inner_product(v, v + m, r.f.begin(), 0.0);
  }
}

// The mean by parts; answers that are far count as 8 errors from the centre.
inline double mean_of(const Means& s, const MeansRoom& r) {
  double sum = 0;
  for (size_t i = 0; i < s.experts; ++i)
    sum += r.parts[i] * std::clamp(r.found[i] - r.center, -r.reach, r.reach);
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

// Moves a mean over so many rows, where none counts for more than 1000 of what is usual.
inline void move_mean(double& mean, double value, double usual, double rows) {
  mean += ((usual > 0 ? std::min(value, kMeansRow * usual) : value) - mean) / rows;
}

// Moves what is usual of target o by one row's errors.
inline void follow_errors(const Means& s, size_t o, double y, double told, double trial,
                          MeansRoom& r) {
  for (size_t i = 0; i < s.experts; ++i) {
    const double error = std::min(std::fabs(r.found[i] - y), kMeansLargest);
    move_mean(s.squares[o * s.experts + i], error * error, r.sure[i],
              std::min(trial, kMeansRecent));
  }
  for (size_t i = 0; i < s.members; ++i) r.sizes[i] = std::fabs(r.found[i] - y);
  move_mean(s.usual[o], median_of(r.sizes), s.usual[o], trial);
  move_mean(s.own[o], std::fabs(told - y), s.own[o], trial);
}

inline void learn_target(const Means& s, size_t o, double y, double told, double trial,
                         MeansRoom& r) {
  follow_errors(s, o, y, told, trial, r);
  const double scale = kMeansReach * s.own[o];
  for (size_t i = 0; scale > 0 && i < s.experts; ++i) {
    const double part = std::min(std::fabs(r.found[i] - y) / scale, 1.0);
    r.loss[i] += part * part / static_cast<double>(s.outputs);
  }
  const double target = std::clamp((y - r.center) / r.unit, -kMeansFarthest, kMeansFarthest);
  if (s.members > 1) learn_means_joint(s, o, target, r);
}

// Answers one row, then learns what came.
inline void learn_means(const Means& s, const double* scores, const double* y, MeansRoom& r,
                        double* out) {
  const double trial = std::min(s.totals[2] + 1, kMeansHorizon);
  std::fill(r.loss.begin(), r.loss.end(), 0.0);
  for (size_t o = 0; o < s.outputs; ++o) {
    answers_of(s, scores, o, r);
    out[o] = mean_of(s, r);
    learn_target(s, o, y[o], out[o], trial, r);
  }
  const Shared shared = share_step(r.loss.data(), s.experts, s.rate, s.share, s.weights);
  for (size_t i = 0; i < s.experts; ++i) s.losses[i] += r.loss[i];
  s.totals[0] += shared.mean;
  s.totals[1] += shared.gap;
  s.totals[2] += 1;
}

inline void look_means(const Means& s, const double* scores, MeansRoom& r, double* out) {
  for (size_t o = 0; o < s.outputs; ++o) {
    answers_of(s, scores, o, r);
    out[o] = mean_of(s, r);
  }
}

}  // namespace onkel
