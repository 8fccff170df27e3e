// A kernel detector, classifier or regressor in a cell: everything that its estimator keeps. Small
// things are learned in place; of the terms a cell with few has no more places than it needs, and
// they are spread out to a panel for the length of a call.
#pragma once
#include <cmath>
#include <limits>
#include <type_traits>

#include "api.hpp"
#include "cells.hpp"
#include "chances.hpp"
#include "running.hpp"

namespace onkel {

// What all models of a fleet share.
struct TermPlan {
  int64_t d, cap, limit;  // features; most terms, and the room that there will ever be for them
  Loss loss;
  Rule rule;
  bool intercept, adaptive;              // an offset; a loss whose number follows nu
  bool invariant, scale, gaps, targets;  // as the frame, the settings and the targets have them
  bool link;                             // scores are made into odds
  double start;                          // the threshold before the first row
  double memory, horizon, duration;      // forgetting: rows, those of the moments, seconds
  double eps, clip;                      // of the rows' type
  bool steady;
  int64_t recent, warmup;

  bool moments() const { return scale || gaps; }
};

// The beginning of a cell; onkel/core/cells.py reads and writes the same.
struct TermHead {
  int64_t size, t, mistakes;
  double clock, refreshed;  // NaN: none
  int32_t version, flags, columns;
  int32_t head, count, panels, room;  // a ring of so many panels; places that there are for terms
  int32_t recent_room, recent_at, recent_count;
  int32_t labels, counted, named, spare;
};

constexpr int32_t kTermVersion = 1;
enum TermFlag : int32_t { kBinary = 1, kWarm = 2, kMerged = 4, kWide = 8, kOneTarget = 16 };
constexpr int64_t kNarrow = int64_t{1} << 31;  // births below it have four bytes
constexpr int64_t kLone = 7;  // of a link without others: joint 2, bow, said, weights, losses 2

// Where the arrays of a cell lie. A ring of one panel has `room` places, which is a power of two:
// the term in slot s of the ring has place s % room. A longer ring has all of its slots.
template <class T>
struct TermArrays {
  TermArrays() = default;
  TermArrays(const TermPlan& plan, const TermHead& h, Byte* cell) {
    const int64_t d = plan.d, c = h.columns, y = plan.targets ? c : 0;
    const int64_t kept = plan.moments() ? d : 0, gaps = plan.gaps ? d : 0;
    const bool wide = h.flags & kWide;
    Byte* at = cell + sizeof(TermHead);
    const auto take = [&at](auto*& to, int64_t n) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(at);
      at += n * static_cast<int64_t>(sizeof *to);
    };
    take(state, c * kFields), take(seen, kept ? std::max<int64_t>(gaps, 1) : 0);
    take(mean, kept), take(variance, kept), take(means, gaps);
    take(center, d), take(width, d), take(frame_mean, d), take(shift, plan.invariant ? 0 : d);
    take(target_center, y), take(target_spread, y), take(target_seen, y), take(target_mean, y);
    take(target_variance, y), take(warm, h.flags & kWarm ? 3 : 0), take(recent, h.recent_room);
    take(link, plan.link ? kLink + 2 * std::max<int64_t>(c, 2) + kLone : 0);
    take(linked, plan.link ? 1 : 0), take(counts, h.counted);
    take(coef, c * h.room), take(wide_births, wide ? h.room : 0);
    take(rows, d * h.room), take(norms, h.room), take(births, wide ? 0 : h.room);
    take(labels, h.labels), take(counted, h.counted), take(power, d), take(known, d);
    take(units, y);
    size = (at - cell + 7) / 8 * 8;
  }

  double *state, *seen, *mean, *variance, *means, *center, *width, *frame_mean, *shift;
  double *target_center, *target_spread, *target_seen, *target_mean, *target_variance;
  double *warm, *recent, *link;
  int64_t *linked, *counts;
  double* coef;  // [panels][columns][places]
  int64_t* wide_births;
  T *rows, *norms;  // [panels][d][places]
  int32_t *births, *labels, *counted;
  int16_t* power;  // of two: the units
  uint8_t *known, *units;
  int64_t size;
};

inline TermHead term_head(const Byte* cell) {
  TermHead h;
  std::memcpy(&h, cell, sizeof h);
  return h;
}

// A cell of the size that its head says, all else 0.
template <class T>
inline Byte* new_term_cell(const TermPlan& plan, TermHead h) {
  h.size = TermArrays<T>(plan, h, nullptr).size;
  Byte* cell = new_cell(h.size);
  std::memcpy(cell, &h, sizeof h);
  return cell;
}

// A cell that has seen nothing.
template <class T>
inline Byte* fresh_term_cell(const TermPlan& plan) {
  TermHead h{};
  h.version = kTermVersion;
  h.clock = h.refreshed = NAN;
  Byte* cell = new_term_cell<T>(plan, h);
  const TermArrays<T> a(plan, h, cell);
  std::fill_n(a.width, plan.d, 1.0);
  if (plan.link) {
    const double first[] = {2.0, kPrior, 0.02,         0, 0, kPrior, kPrior,
                            1,   1,      kNewtonPrior, 0, 1, 0,      0};
    std::copy(std::begin(first), std::end(first), a.link);
  }
  return cell;
}

// The same model in a cell whose head says other numbers of outputs, places, scores and labels;
// what is new is 0. A longer ring is laid out anew, from its first slot on.
template <class T>
inline Byte* other_term_cell(const TermPlan& plan, const Byte* old, TermHead to) {
  const TermHead from = term_head(old);
  const TermArrays<T> a(plan, from, const_cast<Byte*>(old));
  const bool longer = to.panels != from.panels;
  if (to.panels > 1) to.room = to.panels * kLanes;
  if (to.panels > 1 || to.t >= kNarrow) to.flags |= kWide;
  if (longer) to.head = 0;
  Byte* cell = new_term_cell<T>(plan, to);
  const TermArrays<T> b(plan, to, cell);
  const int64_t d = plan.d, y = plan.targets ? std::min(from.columns, to.columns) : 0;
  const auto copy = [](const auto* x, auto* z, int64_t n) { std::copy_n(x, n, z); };
  copy(a.state, b.state, std::min(from.columns, to.columns) * kFields);
  const auto* first = reinterpret_cast<const Byte*>(a.seen);
  const auto* last = reinterpret_cast<const Byte*>(a.target_center);
  std::copy(first, last, reinterpret_cast<Byte*>(b.seen));  // moments and frame are as long
  copy(a.target_center, b.target_center, y), copy(a.target_spread, b.target_spread, y);
  copy(a.target_seen, b.target_seen, y), copy(a.target_mean, b.target_mean, y);
  copy(a.target_variance, b.target_variance, y), copy(a.units, b.units, y);
  if (from.flags & to.flags & kWarm) copy(a.warm, b.warm, 3);
  copy(a.recent, b.recent, std::min(from.recent_room, to.recent_room));
  if (plan.link) {
    const int64_t was = std::max(from.columns, 2), now = std::max(to.columns, 2);
    const int64_t both = std::min(was, now);
    copy(a.link, b.link, kLink), copy(a.link + kLink, b.link + kLink, both);
    copy(a.link + kLink + was, b.link + kLink + now, both);
    copy(a.link + kLink + 2 * was, b.link + kLink + 2 * now, kLone);
    *b.linked = *a.linked;
  }
  copy(a.counts, b.counts, std::min(from.counted, to.counted));
  copy(a.counted, b.counted, std::min(from.counted, to.counted));
  copy(a.labels, b.labels, std::min(from.labels, to.labels));
  copy(a.power, b.power, d), copy(a.known, b.known, d);
  for (int64_t i = 0; i < from.count; ++i) {
    const int64_t s = (from.head + i) % (from.panels * kLanes);
    const int64_t s2 = longer ? i : s;
    const int64_t lanes = from.panels > 1 ? kLanes : from.room,
                  lanes2 = to.panels > 1 ? kLanes : to.room;
    const int64_t p = from.panels > 1 ? s / kLanes : 0, l = s % lanes;
    const int64_t p2 = to.panels > 1 ? s2 / kLanes : 0, l2 = s2 % lanes2;
    for (int64_t j = 0; j < d; ++j)
      b.rows[(p2 * d + j) * lanes2 + l2] = a.rows[(p * d + j) * lanes + l];
    for (int64_t c = 0; c < std::min(from.columns, to.columns); ++c)
      b.coef[(p2 * to.columns + c) * lanes2 + l2] = a.coef[(p * from.columns + c) * lanes + l];
    b.norms[p2 * lanes2 + l2] = a.norms[p * lanes + l];
    const int64_t birth =
        from.flags & kWide ? a.wide_births[p * lanes + l] : a.births[p * lanes + l];
    if (to.flags & kWide)
      b.wide_births[p2 * lanes2 + l2] = birth;
    else
      b.births[p2 * lanes2 + l2] = static_cast<int32_t>(birth);
  }
  return cell;
}

}  // namespace onkel
