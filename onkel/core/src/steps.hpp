// Steps: the scalar loop. f <- c (shrink f + coef k_x), one example after another, on numbers
// that `rows` computed beforehand. The readable form is onkel/core/numpy_core.py.
#pragma once
#include <cmath>

#include "api.hpp"
#include "rules.hpp"
#include "simd.hpp"

namespace {

using onkel::BudgetCode;
using onkel::StepInput;
using onkel::StepOutput;

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

// ||f||^2 after a change; what is left of a sum that has cancelled must not be trusted. ROMMA's
// norm grows by orders of magnitude and falls again as terms leave: few terms are soon summed anew.
constexpr int64_t kFew = 64;
inline double settle_norm(Block& b, double square, double before) {
  const bool wild = b.in.rule.code == RuleCode::kRomma && b.live <= kFew;
  if (square < (wild ? 0.5 : 1e-5) * before) b.out.stale_norm = true;
  return square < 0 ? 0 : square;  // no number stays none, and is refused
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
        s[onkel::kFieldNorm2] = settle_norm(b, left, before);
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

// Lets the term go whose turn it is.
inline void let_go(Block& b, int64_t upto) {
  switch (b.in.budget) {
    case BudgetCode::kOldest:
      return drop_front(b, upto);
    case BudgetCode::kSmallest:
    case BudgetCode::kMerge:
    case BudgetCode::kProject:
      break;  // these let terms go between blocks, which end where the window is full
  }
  onkel::refuse("budget", static_cast<int>(b.in.budget));
}

// Dropping a term can make f longer.
inline void keep_in_ball(Block& b) {
  const double most = b.in.rule.radius * b.in.rule.radius;
  for (int64_t c = 0; c < b.in.columns; ++c) {
    double* s = b.state(c);
    if (!(s[onkel::kFieldNorm2] > most)) continue;
    const double inward = std::sqrt(most / s[onkel::kFieldNorm2]);
    b.factor[c] *= inward;
    s[onkel::kFieldDropped] *= inward;
    s[onkel::kFieldNorm2] = most;
  }
}

// One column of one trial. Returns whether a term was stored; sets *wiped on a shrink of 0.
inline bool step_column(Block& b, int64_t t, int64_t c, bool* wiped) {
  const StepInput& in = b.in;
  const int64_t i = in.old_count + t, at = t * in.columns + c;
  double* s = b.state(c);
  if (std::isnan(in.y[at])) {  // an output that is not there yet
    b.out.score[at] = 0;
    b.out.limit[at] = limit_of(in.loss, s);
    if (in.average) b.out.mean_score[at] = 0;
    b.coef[c * b.n + i] = 0;
    *wiped = false;
    return false;
  }
  const double f = b.factor[c] * b.value(i, c, i);
  const double kxx = in.diag[i];
  b.out.score[at] = f + s[onkel::kFieldOffset];
  b.out.limit[at] = limit_of(in.loss, s);
  if (in.average) {
    const double sum =
        b.value(i, in.columns + c, i) + s[onkel::kFieldScaleSum] / b.start[c] * b.value(i, c, i);
    b.out.mean_score[at] = mean_of(in.loss, s, sum, b.out.limit + at);
  }
  s[onkel::kFieldScaleSum] += b.factor[c] * b.start[c];
  const Trial trial{f, in.y[at], kxx, in.eta[t], in.lam[t], in.weight[t]};
  Move m = decide(in.loss, in.rule, 2.0, in.intercept, in.needs_norm, trial, s);
  if (in.needs_norm) {
    const double old = m.shrink * m.shrink * s[onkel::kFieldNorm2];
    const double own = m.coef * m.coef * kxx;
    const double square = old + 2 * m.shrink * m.coef * f + own;
    const double c2 = square > m.radius * m.radius ? m.radius * m.radius / square : 1;
    s[onkel::kFieldNorm2] = c2 * settle_norm(b, square, old + own);
    m.shrink *= std::sqrt(c2);
    m.coef *= std::sqrt(c2);
  }
  s[onkel::kFieldDropped] *= m.shrink;
  b.factor[c] *= m.shrink;
  *wiped = b.factor[c] == 0;
  b.coef[c * b.n + i] = *wiped ? m.coef : m.coef / b.factor[c];
  if (b.out.bad_row < 0 && !is_finite(in.rule, s, b.out.score[at], m.coef, kxx)) b.out.bad_row = t;
  return m.coef != 0;
}

// Whether all that row t has changed is well inside the floating range, what it let go included.
inline bool is_sound(const Block& b, int64_t t) {
  const StepInput& in = b.in;
  bool sound = true;
  for (int64_t c = 0; c < in.columns; ++c) {
    const double* shown = in.average ? b.out.mean_score : b.out.score;
    sound &= is_sound(b.state(c), shown[t * in.columns + c]);
    const int64_t past = (in.columns + c) * b.n + in.old_count + t;
    if (in.average) sound &= std::fabs(b.coef[past]) < onkel::kMostState;
  }
  return sound;
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
  for (int64_t c = 0; c < b.in.columns; ++c) {
    const double scale = b.factor[c] * b.start[c];
    stop |= wiped[c] || scale < b.in.stop_scale || scale * b.in.stop_scale > 1;
  }
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
      let_go(b, i + 1);
    if (in.needs_norm && in.rule.radius < HUGE_VAL) keep_in_ball(b);
    if (out.bad_row < 0 && !is_sound(b, t)) out.bad_row = t;
    stop = must_stop(b, wiped);
  }
  out.done = t;
  write_out(b, t, wiped);
}

}  // namespace
