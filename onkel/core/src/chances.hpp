// Scores made into probabilities, and mixed under log loss with fixed share (onkel/core/chances.py
// has the same in NumPy, and the formulas). One row after another; all sizes are small.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "solve.hpp"

namespace onkel {

// What the numbers of core/chances.py are called here; a test compares them.
constexpr double kHorizon = 1000, kPrior = 4, kFlat = 1e-3, kFlattest = 0.01, kSteepest = 50;
constexpr double kLeastLapse = 1e-6, kMostLapse = 0.5, kPressed = 10;
constexpr double kNewtonPrior = 3, kGradient = 0.02, kReach = 8, kFaint = 1e-3;
constexpr int kJoint = 2, kLink = 3;  // joint experts; numbers of a link: slope, curve, lapse

// The state: arrays of the caller's.
struct Chances {
  int64_t members, outputs, classes, experts;
  double share;
  double* link;     // [members][kLink]
  double* offset;   // [members][classes]
  double* bend;     // [members][classes]
  double* joint;    // [kJoint][members], by Newton and by gradient
  double* bow;      // [members][members], curvature of the first; the lower half
  double* said;     // [members], how much each says of late: its mean |f|
  double* weights;  // [experts]
  double* losses;   // [experts + 1], the mixture's last
  int64_t* count;   // [1]
};

// What one row needs, made once.
struct ChancesRoom {
  explicit ChancesRoom(const Chances& s)
      : z(at(s.members * s.classes)),
        q(z.size()),
        f(z.size()),
        logs(z.size()),
        told(at(s.classes)),
        p(at(s.experts * s.classes)),
        mixed(at(s.classes)),
        slope(at(s.members)),
        mean(slope.size()),
        u(slope.size()),
        room(at(s.members * (s.members + 2))) {}
  static size_t at(int64_t n) { return static_cast<size_t>(n); }
  std::vector<double> z, q, f, logs, told, p, mixed, slope, mean, u, room;
};

inline double pressed(double z) {
  const double size = std::fabs(z);
  return size <= kPressed ? z : std::copysign(kPressed * (1 + std::log(size / kPressed)), z);
}

inline void softmax(double* values, int64_t n) {
  const double top = *std::max_element(values, values + n);
  double total = 0;
  for (int64_t c = 0; c < n; ++c)  // of the largest, which is half of them for two classes, it is 1
    total += values[c] = values[c] == top ? 1.0 : std::exp(values[c] - top);
  for (int64_t c = 0; c < n; ++c) values[c] /= total;
}

// The links' answers: z what softmax is taken of, q the softmax, p with the lapse in it.
inline void answer_links(const Chances& s, const double* scores, ChancesRoom& r) {
  const int64_t n = s.classes;
  for (int64_t m = 0; m < s.members; ++m) {
    const double *own = s.link + m * kLink, lapse = own[2];
    double *z = &r.z[m * n], *q = &r.q[m * n], *p = &r.p[m * n];
    if (s.outputs == 1) {
      const double half = pressed(scores[m]) / 2;
      z[0] = -half;
      z[1] = half;
    } else {
      for (int64_t c = 0; c < n; ++c) z[c] = pressed(scores[m * n + c]);
    }
    for (int64_t c = 0; c < n; ++c) q[c] = own[0] * z[c] + s.offset[m * n + c];
    softmax(q, n);
    for (int64_t c = 0; c < n; ++c) p[c] = lapse / n + (1 - lapse) * q[c];
  }
}

// The joint experts' answers, of the members' centred logarithms f; before their least lapse.
inline void answer_joint(const Chances& s, ChancesRoom& r) {
  const int64_t n = s.classes, m_ = s.members;
  for (int64_t m = 0; m < m_; ++m) {
    double mean = 0;
    for (int64_t c = 0; c < n; ++c) mean += r.logs[m * n + c] = std::log(r.p[m * n + c]);
    for (int64_t c = 0; c < n; ++c)
      r.f[m * n + c] = std::clamp(r.logs[m * n + c] - mean / n, -kReach, kReach);
  }
  for (int j = 0; j < kJoint; ++j) {
    double* p = &r.p[(m_ + j) * n];
    for (int64_t c = 0; c < n; ++c) {
      p[c] = 0;
      for (int64_t m = 0; m < m_; ++m) p[c] += s.joint[j * m_ + m] * r.f[m * n + c];
    }
    softmax(p, n);
    for (int64_t c = 0; c < n; ++c) p[c] = kLeastLapse / n + (1 - kLeastLapse) * p[c];
  }
}

inline void answer(const Chances& s, const double* scores, ChancesRoom& r) {
  answer_links(s, scores, r);
  if (s.members > 1) answer_joint(s, r);
  for (int64_t c = 0; c < s.classes; ++c) {
    r.mixed[c] = 0;
    for (int64_t e = 0; e < s.experts; ++e) r.mixed[c] += s.weights[e] * r.p[e * s.classes + c];
  }
}

// What is told of the mixed probabilities: log-odds of one output, else centred logarithms.
inline void tell(const Chances& s, ChancesRoom& r, double* out) {
  double mean = 0;
  for (int64_t c = 0; c < s.classes; ++c) mean += r.told[c] = std::log(r.mixed[c]);
  if (s.outputs == 1) {
    out[0] = r.told[1] - r.told[0];
    return;
  }
  for (int64_t c = 0; c < s.classes; ++c) out[c] = r.told[c] - mean / s.classes;
}

inline void learn_link(const Chances& s, int64_t m, int64_t y, const ChancesRoom& r) {
  const int64_t n = s.classes;
  double *own = s.link + m * kLink, &lapse = own[2];
  const double *z = &r.z[m * n], *q = &r.q[m * n], keep = 1 - 1 / kHorizon;
  const double stray = lapse / n / (lapse / n + (1 - lapse) * q[y]);
  double mean = 0, slope = 0, curve = 0;
  for (int64_t c = 0; c < n; ++c) mean += q[c] * z[c];
  for (int64_t c = 0; c < n; ++c) {
    slope += (q[c] - (c == y)) * z[c];
    curve += q[c] * (z[c] - mean) * (z[c] - mean);
    if (s.members == 1) continue;  // the highest score stays the most likely class
    double &bend = s.bend[m * n + c], now = (1 - stray) * std::max(q[c] * (1 - q[c]), kFlat / n);
    bend = keep * bend + now + (1 - keep) * kPrior;
    s.offset[m * n + c] -= (1 - stray) * (q[c] - (c == y)) / bend;
  }
  own[1] = keep * own[1] + std::max((1 - stray) * curve, kFlat) + (1 - keep) * kPrior;
  own[0] = std::clamp(own[0] - (1 - stray) * slope / own[1], kFlattest, kSteepest);
  const double horizon = std::min(static_cast<double>(*s.count) + 99, kHorizon);
  lapse = std::clamp(lapse + (stray - lapse) / horizon, kLeastLapse, kMostLapse);
}

// curvature <- curvature + h u u'; the lower half is enough.
inline void bend_joint(const Chances& s, double h, const ChancesRoom& r) {
  const int64_t n = s.members;
  for (int64_t a = 0; a < n; ++a)
    for (int64_t b = 0; b <= a; ++b) s.bow[a * n + b] += h * r.u[a] * r.u[b];
}

// The slope of the log loss of joint expert j in its weights, and the mean of f under it.
inline void joint_slope(const Chances& s, int j, int64_t y, ChancesRoom& r) {
  const double* p = &r.p[(s.members + j) * s.classes];
  for (int64_t m = 0; m < s.members; ++m) {
    r.slope[m] = r.mean[m] = 0;
    for (int64_t c = 0; c < s.classes; ++c) {
      const double q = (p[c] - kLeastLapse / s.classes) / (1 - kLeastLapse);
      r.slope[m] += (q - (c == y)) * r.f[m * s.classes + c];
      r.mean[m] += q * r.f[m * s.classes + c];
    }
  }
}

inline void learn_joint(const Chances& s, int64_t y, ChancesRoom& r) {
  const int64_t n = s.members, classes = s.classes;
  const double horizon = std::min(static_cast<double>(*s.count), kHorizon);
  for (int64_t m = 0; m < n; ++m) {
    double said = 0;
    for (int64_t c = 0; c < classes; ++c) said += std::fabs(r.f[m * classes + c]);
    s.said[m] += (said / classes - s.said[m]) / horizon;
  }
  joint_slope(s, 1, y, r);
  for (int64_t m = 0; m < n; ++m) s.joint[n + m] -= kGradient * r.slope[m];
  joint_slope(s, 0, y, r);
  const double keep = 1 - 1 / kHorizon;
  for (int64_t a = 0; a < n * n; ++a)
    s.bow[a] = keep * s.bow[a] + (a % (n + 1) ? 0 : (1 - keep) * kNewtonPrior);
  for (int64_t c = 0; c < classes; ++c) {
    const double q = (r.p[n * classes + c] - kLeastLapse / classes) / (1 - kLeastLapse);
    if (q < kFaint && c != y) continue;
    for (int64_t m = 0; m < n; ++m) r.u[m] = r.f[m * classes + c] - r.mean[m];
    bend_joint(s, std::max(q, kFaint), r);
  }
  solve(s.bow, static_cast<size_t>(n), r.slope.data(), r.room.data());
  for (int64_t a = 0; a < n; ++a) s.joint[a] -= r.slope[a];
}

inline void learn_weights(const Chances& s, int64_t y, const ChancesRoom& r) {
  for (int64_t e = 0; e < s.experts; ++e) {
    const double p = r.p[e * s.classes + y];
    const bool known = s.members > 1 && e < s.members;  // its logarithm has been taken
    s.losses[e] -= known ? r.logs[e * s.classes + y] : std::log(p);
    s.weights[e] = (1 - s.share) * s.weights[e] * p / r.mixed[y] + s.share / s.experts;
  }
  s.losses[s.experts] -= r.told[y];
}

// Answers one row, then learns that its class was y.
inline void learn_chances(const Chances& s, const double* scores, int64_t y, ChancesRoom& r,
                          double* out) {
  answer(s, scores, r);
  tell(s, r, out);
  ++*s.count;
  learn_weights(s, y, r);
  if (s.members > 1) learn_joint(s, y, r);
  for (int64_t m = 0; m < s.members; ++m) learn_link(s, m, y, r);
}

}  // namespace onkel
