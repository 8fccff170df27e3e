// Losses and rules: what the scalars of one example decide. The readable forms are in
// onkel/losses.py and onkel/rules/.
#pragma once
#include <cmath>

#include "api.hpp"

namespace {

using onkel::Loss;
using onkel::LossCode;
using onkel::Rule;
using onkel::RuleCode;

// What a loss says of one example: -l', whether it lies outside, l, and where the threshold goes.
struct Verdict {
  double slope, outside, value, direction;
};

inline double sign(double x) { return static_cast<double>((x > 0) - (x < 0)); }

inline Verdict soft_margin(const Loss& loss, double nu, double z, double y, double threshold) {
  const double outside = y * z <= threshold;
  const double gap = threshold - y * z;
  double slope = y * outside, value = gap > 0 ? gap : 0;
  if (loss.extra != 1) {
    slope *= outside > 0 ? loss.extra * std::pow(value, loss.extra - 1) : 0;
    value = std::pow(value, loss.extra);
  }
  return {slope, outside, value - nu * threshold, nu - outside};
}

constexpr double kSteepest = 30;
inline Verdict judge(const Loss& loss, double z, double y, double threshold) {
  const double nu = loss.nu >= 0 ? loss.nu : 0.0;
  switch (loss.code) {
    case LossCode::kSoftMargin:
      return soft_margin(loss, nu, z, y, threshold);
    case LossCode::kLogistic: {
      const double m = y * z;
      const double e = std::exp(-std::fabs(m));
      const double slope = y * (m > 0 ? e / (1 + e) : 1 / (1 + e));
      return {slope, static_cast<double>(m <= 0), std::log1p(e) + (m < 0 ? -m : 0), 0};
    }
    case LossCode::kLeastSquares: {
      const double gap = 1 - y * z;
      return {2 * y * gap, static_cast<double>(y * z <= 0), gap * gap, 0};
    }
    case LossCode::kExponential: {  // a straight line beyond kSteepest
      const double gap = -y * z, held = gap < kSteepest ? gap : kSteepest;
      const double e = std::exp(held);
      return {y * e, static_cast<double>(y * z <= 0), e * (1 + (gap - held)), 0};
    }
    case LossCode::kNovelty: {
      const double outside = z < threshold;
      const double gap = threshold - z;
      return {outside, outside, (gap > 0 ? gap : 0) - loss.extra * threshold, loss.extra - outside};
    }
    case LossCode::kSquared: {
      const double delta = y - z;
      return {delta, 0, 0.5 * delta * delta, 0};
    }
    case LossCode::kAbsolute: {
      const double delta = y - z;
      return {sign(delta), 0, std::fabs(delta), 0};
    }
    case LossCode::kEpsilonInsensitive: {
      const double delta = y - z, gap = std::fabs(delta) - threshold;
      const double outside = gap > 0;
      return {sign(delta) * outside, outside, (gap > 0 ? gap : 0) + nu * threshold, outside - nu};
    }
    case LossCode::kHuber: {
      const double delta = y - z, size = std::fabs(delta);
      const double outside = size > threshold;
      if (size >= threshold) return {sign(delta), outside, size - threshold / 2, outside - nu};
      const double width = threshold > 1e-300 ? threshold : 1e-300;
      return {delta / width, outside, delta * delta / (2 * width), outside - nu};
    }
  }
  onkel::refuse("loss", static_cast<int>(loss.code));
}

struct Trial {
  double f, y, kxx, eta, lam, weight;
};

// f <- shrink f + coef k_x, then into the ball of this radius.
struct Move {
  double shrink, coef, radius;
};

// NORMA: 1 - eta lam omega'(||f||)/||f||.
inline double norma_shrink(const Rule& rule, const Trial& t, double norm2) {
  double pull = 1;
  if (rule.power != 2) {
    if (!(norm2 > 0)) return 1;
    pull = std::pow(norm2, rule.power / 2 - 1);
  }
  const double s = 1 - t.eta * t.lam * pull;
  return s > 0 ? s : 0;
}

// (1 - a) gamma_k, the margin of ALMA's self-tuning form at its k-th update.
inline double alma_margin(const Rule& rule, double p, double k) {
  return (1 - rule.extra) * (std::sqrt(8.0) / rule.extra) * std::sqrt((p - 1) / k);
}

// The whole way to the smallest f with y f(x) >= 1 and <f, f_t> >= ||f_t||^2. Beyond kLeast the
// margin 1/||f|| is lost in rounding: f starts again.
constexpr double kLeast = 1e24;
inline Move romma(const Trial& t, double norm2) {
  const double kn = t.kxx * norm2, d = kn - t.f * t.f;
  if (!(norm2 > 0)) return {1, t.y / t.kxx, HUGE_VAL};
  if (kn <= t.y * t.f || d <= 1e-12 * kn || kn > kLeast) return {0, t.y / t.kxx, HUGE_VAL};
  return {(kn - t.y * t.f) / d, norm2 * (t.y - t.f) / d, HUGE_VAL};
}

inline Move move_of(const Rule& rule, double p, const Trial& t, const Verdict& v, const double* s) {
  const double norm2 = s[onkel::kFieldNorm2];
  switch (rule.code) {
    case RuleCode::kAlma: {
      if (rule.extra == 0) return {1, t.eta * t.weight * v.slope, rule.radius};
      if (!(t.kxx > 0)) return {1, 0, rule.radius};
      const double k = s[onkel::kFieldUpdates] + 1;
      return {1, t.weight * v.slope * std::sqrt(2 / (k * (p - 1) * t.kxx)), rule.radius};
    }
    case RuleCode::kProjection:
      if (!(t.kxx > 0) || v.value <= 1e-12 * (std::fabs(t.f) + std::fabs(t.y)))
        return {1, 0, rule.radius};  // right already, but for rounding
      return {1, t.weight * v.slope * v.value / t.kxx, rule.radius};
    case RuleCode::kRomma: {
      const double m = t.y * t.f;
      if (!(t.kxx > 0) || (rule.extra > 0 ? m >= 1 - 1e-12 : m > 0)) return {1, 0, HUGE_VAL};
      const Move whole = romma(t, norm2);
      const double shrink = 1 + t.weight * (whole.shrink - 1);
      return {shrink > 0 ? shrink : 0, t.weight * whole.coef, HUGE_VAL};
    }
    case RuleCode::kNorma:
      return {norma_shrink(rule, t, norm2), t.eta * t.weight * v.slope, HUGE_VAL};
  }
  onkel::refuse("rule", static_cast<int>(rule.code));
}

// Counts what happened, moves the adaptive numbers and b, and says how f moves.
inline Move decide(const Loss& loss, const Rule& rule, double p, bool intercept, bool needs_norm,
                   const Trial& t, double* s) {
  const bool novelty = loss.code == LossCode::kNovelty;
  const bool tuning = rule.code == RuleCode::kAlma && rule.extra > 0;
  const double z = t.f + s[onkel::kFieldOffset];
  const double seen = tuning ? (t.kxx > 0 ? z / std::sqrt(t.kxx) : 0) : z;
  const Verdict v = judge(loss, seen, t.y, s[onkel::kFieldThreshold]);
  const double alert = novelty && z < s[onkel::kFieldAlert];
  s[onkel::kFieldTrials] += 1;
  s[onkel::kFieldWeight] += t.weight;
  s[onkel::kFieldOutside] += t.weight * v.outside;
  s[onkel::kFieldAlerts] += t.weight * alert;
  s[onkel::kFieldMarginErrors] += v.outside;
  s[onkel::kFieldLoss] += t.weight * v.value;
  if (needs_norm)
    s[onkel::kFieldRisk] +=
        t.weight * v.value + t.lam * std::pow(s[onkel::kFieldNorm2], rule.power / 2) / rule.power;
  s[onkel::kFieldOffsetSum] += s[onkel::kFieldOffset];
  s[onkel::kFieldAlertSum] += s[onkel::kFieldAlert];
  Move m = move_of(rule, p, t, v, s);
  if (alert > 0 && !loss.learn_alerts) m.coef = 0;  // f shrinks, thresholds move, nothing is stored
  s[onkel::kFieldUpdates] += m.coef != 0;
  if (intercept) s[onkel::kFieldOffset] += m.coef;
  if (tuning) s[onkel::kFieldThreshold] = alma_margin(rule, p, s[onkel::kFieldUpdates] + 1);
  if (loss.nu >= 0) {
    const double step = t.eta * t.weight;
    s[onkel::kFieldThreshold] +=
        (novelty ? rule.support_rate : rule.threshold_rate) * step * v.direction;
    if (novelty) s[onkel::kFieldAlert] += rule.threshold_rate * step * (loss.nu - alert);
  }
  return m;
}

// Whether an output's state is well inside the floating range, and so is what was shown. Looked at
// is what one row can move far: the scale and what is counted by trials it cannot, NORM2 and b have
// been looked at, loss and risk are only reported.
inline bool is_sound(const double* s, double shown) {
  const double thresholds = std::fabs(s[onkel::kFieldThreshold]) + std::fabs(s[onkel::kFieldAlert]);
  const double sums = std::fabs(s[onkel::kFieldOffsetSum]) + std::fabs(s[onkel::kFieldAlertSum]);
  const double lost = s[onkel::kFieldDropped] + s[onkel::kFieldDroppedAverage];
  const double whole = (thresholds + sums) + (lost + s[onkel::kFieldWeight]);
  return whole < onkel::kMostState && std::fabs(shown) < onkel::kMostShown;
}

inline double limit_of(const Loss& loss, const double* s) {
  return s[loss.code == LossCode::kNovelty ? onkel::kFieldAlert : onkel::kFieldThreshold];
}

// The average hypothesis before this trial, `sum` being that of the f_t(x); its alert threshold.
inline double mean_of(const Loss& loss, const double* s, double sum, double* limit) {
  const double m = s[onkel::kFieldTrials];
  if (!(m > 1)) return 0;  // f_1 = 0, without rounding
  if (loss.code == LossCode::kNovelty) *limit = s[onkel::kFieldAlertSum] / m;
  return (sum + s[onkel::kFieldOffsetSum]) / m;
}

// Well inside the floating range, so that what follows stays in it too. A step may be as long as
// the rule's `most`; a longer one only if it takes back what a score had become before (it does not
// go far beyond): so no row is refused for what another one has done.
constexpr double kBack = 4;
inline bool is_finite(const Rule& rule, const double* s, double score, double coef, double kxx) {
  const double size = std::fabs(coef), square = size * size * (kxx > 1 ? kxx : 1);
  const bool fits = square <= rule.most * rule.most || size * kxx <= kBack * std::fabs(score);
  return fits && std::fabs(score) < onkel::kMostState && size < onkel::kMostShown &&
         s[onkel::kFieldNorm2] < onkel::kMostState &&
         std::fabs(s[onkel::kFieldOffset]) < onkel::kMostState;
}

}  // namespace
