// Steps: the scalar loop. f <- c (shrink f + coef k_x), one example after another, on numbers
// that `rows` computed beforehand. The readable form is onkel/core/numpy_core.py.
#pragma once
#include <cmath>

#include "api.hpp"
#include "simd.hpp"

namespace {

using onkel::StepInput;
using onkel::StepOutput;

// What a loss says of one example: -l', whether it lies outside, l, and where the threshold goes.
struct Verdict {
  double slope, outside, value, direction;
};

inline double sign(double x) { return static_cast<double>((x > 0) - (x < 0)); }

inline Verdict judge(const StepInput& in, double z, double y, double threshold) {
  const bool adaptive = in.nu >= 0;
  const double nu = adaptive ? in.nu : 0.0;
  switch (in.loss) {
    case onkel::kSoftMargin: {
      const double outside = y * z <= threshold;
      const double gap = threshold - y * z;
      return {y * outside, outside, (gap > 0 ? gap : 0) - nu * threshold, nu - outside};
    }
    case onkel::kLogistic: {
      const double m = y * z;
      const double e = std::exp(-std::fabs(m));
      const double slope = y * (m > 0 ? e / (1 + e) : 1 / (1 + e));
      return {slope, static_cast<double>(m <= 0), std::log1p(e) + (m < 0 ? -m : 0), 0};
    }
    case onkel::kNovelty: {
      const double outside = z < threshold;
      const double gap = threshold - z;
      return {outside, outside, (gap > 0 ? gap : 0) - in.support * threshold, in.support - outside};
    }
    case onkel::kSquared: {
      const double delta = y - z;
      return {delta, 0, 0.5 * delta * delta, 0};
    }
    case onkel::kAbsolute: {
      const double delta = y - z;
      return {sign(delta), 0, std::fabs(delta), 0};
    }
    case onkel::kEpsilonInsensitive: {
      const double delta = y - z, gap = std::fabs(delta) - threshold;
      const double outside = gap > 0;
      return {sign(delta) * outside, outside, (gap > 0 ? gap : 0) + nu * threshold, outside - nu};
    }
    default: {  // Huber
      const double delta = y - z, size = std::fabs(delta);
      const double outside = size > threshold;
      if (size >= threshold) return {sign(delta), outside, size - threshold / 2, outside - nu};
      const double width = threshold > 1e-300 ? threshold : 1e-300;
      return {delta / width, outside, delta * delta / (2 * width), outside - nu};
    }
  }
}

inline double dot(const double* a, const double* b, int64_t n) {
  constexpr int W = Simd<double>::width;
  VecD s0 = VecD{}, s1 = VecD{};
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    s0 = s0 + load<VecD>(a + i) * load<VecD>(b + i);
    s1 = s1 + load<VecD>(a + i + W) * load<VecD>(b + i + W);
  }
  double s = sum_lanes<double>(s0 + s1);
  for (; i < n; ++i) s += a[i] * b[i];
  return s;
}

// The block in flight: candidates are the old terms that may be dropped, then the block's rows.
struct Block {
  const StepInput& in;
  StepOutput& out;
  int64_t n, lead, wide;
  double* coef;    // [wide][n] actual units at block start
  double* factor;  // [columns] scale now / scale at block start
  double* start;   // [columns] scale at block start
  bool* stored;    // [n]
  int64_t front = 0, live;

  double* state(int64_t c) const { return out.state + c * onkel::kFields; }
  int64_t birth(int64_t i) const {
    return i < in.old_count ? in.births[i] : in.first_trial + i - in.old_count;
  }
  // Sum over the terms alive now, in units of the block's start, at candidate i.
  double value(int64_t i, int64_t column, int64_t upto) const {
    const int64_t row = lead ? i : i - in.old_count;
    return in.base[row * wide + column] +
           dot(in.kernel + row * n + front, coef + column * n + front, upto - front);
  }
};

// ||f||^2 after a change; what is left of a sum that has cancelled must not be trusted.
inline double settle_norm(StepOutput& out, double square, double before) {
  if (square < 1e-5 * before) out.stale_norm = true;
  return square > 0 ? square : 0;
}

inline void drop_front(Block& b, int64_t upto) {
  const int64_t i = b.front;
  if (b.stored[i]) {
    for (int64_t t = 0; t < b.in.rows; ++t)
      if (b.out.merged[t] && b.in.hosts[t] == i) {  // what a later pass has added goes with it
        for (int64_t c = 0; c < b.wide; ++c) {
          double& guest = b.coef[c * b.n + b.in.old_count + t];
          b.coef[c * b.n + i] += guest;
          guest = 0;
        }
        b.out.merged[t] = 0;
      }
    for (int64_t c = 0; c < b.in.columns; ++c) {
      double* s = b.state(c);
      const double a = b.factor[c] * b.coef[c * b.n + i];
      const double size = std::sqrt(b.in.diag[i] > 0 ? b.in.diag[i] : 0);
      s[onkel::kFieldDropped] += std::fabs(a) * size;
      if (b.in.needs_norm) {
        const double f = b.factor[c] * b.value(i, c, upto);
        const double before = s[onkel::kFieldNorm2];
        const double left = before - 2 * a * f + a * a * b.in.diag[i];
        s[onkel::kFieldNorm2] = settle_norm(b.out, left, before);
      }
      if (b.in.average) {
        const double share = b.coef[(b.in.columns + c) * b.n + i] +
                             s[onkel::kFieldScaleSum] / b.start[c] * b.coef[c * b.n + i];
        s[onkel::kFieldDroppedAverage] += std::fabs(share) * size;
      }
    }
    --b.live;
    if (i < b.in.old_count) ++b.out.dropped;
  }
  ++b.front;
}

inline double shrink_of(const StepInput& in, double eta, double norm2) {
  double pull = 1;
  if (in.power != 2) {
    if (!(norm2 > 0)) return 1;
    pull = std::pow(norm2, in.power / 2 - 1);
  }
  const double s = 1 - eta * in.lambda * pull;
  return s > 0 ? s : 0;
}

// One column of one trial. Returns whether a term was stored; sets *wiped on a shrink of 0.
inline bool step_column(Block& b, int64_t t, int64_t c, bool* wiped) {
  const StepInput& in = b.in;
  const int64_t i = in.old_count + t;
  double* s = b.state(c);
  const double f = b.factor[c] * b.value(i, c, i);
  const double z = f + s[onkel::kFieldOffset];
  const double y = in.y[t * in.columns + c], w = in.weight[t], eta = in.eta[t];
  b.out.score[t * in.columns + c] = z;
  b.out.limit[t * in.columns + c] =
      s[in.loss == onkel::kNovelty ? onkel::kFieldAlert : onkel::kFieldThreshold];
  if (in.average) {
    const double m = s[onkel::kFieldTrials];
    const double sum = b.value(i, in.columns + c, i) +
                       s[onkel::kFieldScaleSum] / b.start[c] * b.value(i, c, i) +
                       s[onkel::kFieldOffsetSum];
    b.out.mean_score[t * in.columns + c] = m > 0 ? sum / m : 0;
    if (in.loss == onkel::kNovelty && m > 0)
      b.out.limit[t * in.columns + c] = s[onkel::kFieldAlertSum] / m;
  }
  const Verdict v = judge(in, z, y, s[onkel::kFieldThreshold]);
  const double alert = in.loss == onkel::kNovelty && z < s[onkel::kFieldAlert];
  s[onkel::kFieldTrials] += 1;
  s[onkel::kFieldWeight] += w;
  s[onkel::kFieldOutside] += w * v.outside;
  s[onkel::kFieldAlerts] += w * alert;
  s[onkel::kFieldMarginErrors] += v.outside;
  s[onkel::kFieldLoss] += w * v.value;
  if (in.needs_norm)
    s[onkel::kFieldRisk] +=
        w * v.value + in.lambda * std::pow(s[onkel::kFieldNorm2], in.power / 2) / in.power;

  const double shrink = shrink_of(in, eta, s[onkel::kFieldNorm2]);
  const double a = eta * w * v.slope;
  s[onkel::kFieldScaleSum] += b.factor[c] * b.start[c];
  s[onkel::kFieldOffsetSum] += s[onkel::kFieldOffset];
  s[onkel::kFieldAlertSum] += s[onkel::kFieldAlert];
  if (in.intercept) s[onkel::kFieldOffset] += a;
  if (in.nu >= 0) {
    const bool novelty = in.loss == onkel::kNovelty;
    s[onkel::kFieldThreshold] +=
        (novelty ? in.support_rate : in.threshold_rate) * eta * w * v.direction;
    if (novelty) s[onkel::kFieldAlert] += in.threshold_rate * eta * w * (in.nu - alert);
  }
  if (in.needs_norm) {
    const double old = shrink * shrink * s[onkel::kFieldNorm2], own = a * a * in.diag[i];
    s[onkel::kFieldNorm2] = settle_norm(b.out, old + 2 * shrink * a * f + own, old + own);
  }
  s[onkel::kFieldDropped] *= shrink;
  b.factor[c] *= shrink;
  *wiped = b.factor[c] == 0;
  b.coef[c * b.n + i] = *wiped ? a : a / b.factor[c];
  if (!(std::fabs(z) < 1e300) || !(std::fabs(a) < 1e150) || !(s[onkel::kFieldNorm2] < 1e300) ||
      !(std::fabs(s[onkel::kFieldOffset]) < 1e300)) {
    if (b.out.bad_row < 0) b.out.bad_row = t;
  }
  return a != 0;
}

// Stored units of column c at candidate i: actual = scale * stored, now and later.
inline void write_out(Block& b, int64_t done, const bool* wiped) {
  const int64_t columns = b.in.columns;
  for (int64_t t = 0; t < done; ++t) {
    const int64_t i = b.in.old_count + t;
    b.out.kept[t] = b.stored[i] && i >= b.front;
    for (int64_t c = 0; c < columns; ++c) {
      const bool gone = wiped[c] && t + 1 < done;
      const double per_start = wiped[c] ? 1 : b.start[c];
      b.out.coef[t * b.wide + c] = gone ? 0 : b.coef[c * b.n + i] / per_start;
      if (!b.in.average) continue;
      double past = b.coef[(columns + c) * b.n + i];  // what a wiped term had given to the average
      if (gone) past += b.coef[c * b.n + i] / b.start[c] * b.state(c)[onkel::kFieldScaleSum];
      b.out.coef[t * b.wide + columns + c] = past;
    }
  }
  for (int64_t c = 0; c < columns; ++c) {
    b.out.wiped[c] = wiped[c];
    b.state(c)[onkel::kFieldScale] = wiped[c] ? 1 : b.factor[c] * b.start[c];
  }
}

inline bool must_stop(const Block& b, const bool* wiped) {
  bool stop = b.out.bad_row >= 0 || b.out.stale_norm;
  for (int64_t c = 0; c < b.in.columns; ++c)
    stop |= wiped[c] || b.factor[c] * b.start[c] < b.in.stop_scale;
  return stop;
}

void steps(const StepInput& in, StepOutput& out) {
  const int64_t n = in.old_count + in.rows, columns = in.columns;
  const int64_t wide = in.average ? 2 * columns : columns;
  Memory<double> memory(n * wide + 2 * columns);
  Memory<bool> storage(n + columns);
  bool* flags = storage.data;
  bool* wiped = flags + n;
  Block b{in,
          out,
          n,
          in.needs_norm ? in.old_count : 0,
          wide,
          memory.data,
          memory.data + n * wide,
          memory.data + n * wide + columns,
          flags,
          0,
          in.live};
  for (int64_t c = 0; c < columns; ++c) {
    b.factor[c] = 1;
    b.start[c] = b.state(c)[onkel::kFieldScale];
  }
  for (int64_t c = 0; c < wide; ++c)
    for (int64_t i = 0; i < in.old_count; ++i)
      b.coef[c * n + i] = in.old_coef[c * in.old_count + i];
  for (int64_t i = 0; i < in.old_count; ++i) b.stored[i] = true;
  out.dropped = 0;
  out.bad_row = -1;
  out.stale_norm = false;
  int64_t t = 0;
  for (bool stop = false; t < in.rows && !stop; ++t) {
    const int64_t i = in.old_count + t;
    for (int64_t c = 0; c < columns; ++c) b.stored[i] |= step_column(b, t, c, wiped + c);
    if (in.average)
      for (int64_t c = 0; c < columns; ++c)
        b.coef[(columns + c) * n + i] =
            -b.coef[c * n + i] / (wiped[c] ? 1 : b.start[c]) * (b.state(c)[onkel::kFieldScaleSum]);
    const int64_t host = in.hosts[t];
    if (b.stored[i] && (host == onkel::kStays || host >= b.front)) {
      out.merged[t] = 1;
      b.stored[i] = false;
    }
    b.live += b.stored[i];
    while (b.front <= i && (b.live > in.cap[t] || b.birth(b.front) < in.oldest[t]))
      drop_front(b, i + 1);
    stop = must_stop(b, wiped);
  }
  out.done = t;
  write_out(b, t, wiped);
}

}  // namespace
