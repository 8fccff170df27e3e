// Whether bytes that come from a file, or from anywhere, are a cell such as rows can have left:
// nothing is believed. What is asked of each field is what a model's file is asked
// (onkel/learner/resume.py, densities_state.py), so that no cell can lead a call out of its arrays.
#pragma once
#include "density_cell.hpp"
#include "term_cells.hpp"

namespace onkel {

constexpr int64_t kMostCounted = int64_t{1} << 53;
constexpr int64_t kMostAnswers = 128;  // of each kind

// Whether all numbers lie in a range; NaN lies in none.
template <class X>
inline bool within(const X* values, int64_t n, double low, double high) {
  return std::all_of(values, values + n, [=](X v) {
    return static_cast<double>(v) >= low && static_cast<double>(v) <= high;
  });
}

inline bool within(int64_t value, int64_t low, int64_t high) {
  return value >= low && value <= high;
}

// A ring of recent scores.
inline bool sound_recent(const double* values, int64_t room, int64_t at, int64_t count,
                         int64_t most) {
  return within(count, 0, room) && within(at, 0, most - 1) && (count == most || at == count) &&
         within(values, room, -1e300, 1e300);
}

// -- detectors of densities

inline bool sound_head(const DensityHead& h, const DensityPlan& plan, int64_t d, int64_t recent) {
  const int64_t by = h.settled ? 16 : 1;
  return h.version == kDensityVersion && within(h.settled, 0, 1) &&
         within(h.places, 0, plan.terms + 16) && within(h.late_places, 0, plan.late_terms + 16) &&
         h.places % by == 0 && h.late_places % by == 0 && within(h.holds, 1, plan.hold + 1) &&
         within(h.waits, 1, plan.delay + 1) && within(h.told, 0, plan.history + 8) &&
         within(h.recent_room, 0, recent) && DensityCell(h, d, nullptr).size == h.size;
}

inline bool sound_counts(const DensityHead& h, const DensityPlan& plan, const int64_t* n) {
  const int64_t t = n[kCountT], waiting = t - n[kCountLateSeen], told = n[kCountHistory];
  if (!std::all_of(n, n + kCounts, [](int64_t k) { return within(k, 0, kMostCounted); }))
    return false;
  return n[kCountSize] <= std::min<int64_t>(plan.terms, h.places) &&
         n[kCountLateSize] <= std::min<int64_t>(plan.late_terms, h.late_places) &&
         told <= std::min<int64_t>(plan.history, h.told) && n[kCountHistoryAt] < plan.history &&
         (told == plan.history || n[kCountHistoryAt] == told) && n[kCountHeld] <= h.holds &&
         n[kCountHeldFirst] < h.holds && within(waiting, 0, h.waits) &&
         n[kCountAlerts] <= n[kCountJudged] && n[kCountJudged] <= t && n[kCountCalm] <= t &&
         n[kCountAlarmed] <= 1 && std::max({n[kCountSize], n[kCountLateSize], told}) <= t &&
         (h.settled || t < plan.young);
}

inline bool sound_levels(const DensityHead& h, const DensityPlan& plan, const double* r) {
  if (!within(r, kLevels, -kMostState, kMostState)) return false;
  const bool wide = r[kLevelWidth] > 0, late = r[kLevelWidth + 3] > 0;
  const bool least[9] = {wide, wide, wide, wide, late, wide, wide, wide, false};
  for (int k = 0; k < 9; ++k)
    if (r[kLevelSlope + k] < (least[k] ? 0.09 : 0)) return false;
  return (h.settled || (!wide && !late)) && within(r + kLevelWidth, 4, 0, 1e30) &&
         within(r + kLevelEdge, kLevelStart - kLevelEdge, -1e30, 1e30) &&
         within(r + kLevelSeen, kLevelLogAlpha - kLevelSeen, 0, kMostState) &&
         r[kLevelRecent] >= 0 &&
         within(r + kLevelLogAlpha, 1, std::log(plan.low) - 1e-9, std::log(plan.high) + 1e-9);
}

inline bool sound_rows(const DensityCell& at, const DensityPlan& plan) {
  const Density& s = at.s;
  const double most = 2.01 * kLargest, squared = 4 * most * most;
  const double smooth = most * s.real[kLevelSmoothMass];
  const int64_t d = s.d, square = 3 * s.ranks * d;
  const double calm[4] = {most, squared, squared, squared * most * most};
  bool fine = within(s.mean, 3 * d, -most, most) && within(s.cov, square, -squared, squared) &&
              within(s.last, d, -most, most) && within(s.smooth, d, -smooth, smooth) &&
              within(s.size, d, 0, most) && within(s.raw, 2 * s.places * d, -most, most) &&
              within(s.late_raw, s.late_places * d, -most, most) &&
              within(s.waiting, s.waits * d, -most, most) &&
              within(s.history, at.head.told, -1e6, 1e6);
  for (int k = 0; k < 4; ++k) fine &= within(s.calm + k * d, d, -calm[k], calm[k]);
  const bool full = s.ranks > 1 || d == 1;
  for (int64_t k = 0; k < 3; ++k)
    for (int64_t j = 0; j < d; ++j) fine &= s.cov[k * s.ranks * d + (full ? j * d + j : j)] >= 0;
  const int64_t t = s.whole[kCountT];
  int64_t last = t;
  for (int64_t i = 0; i < s.whole[kCountHeld]; ++i) {
    const int64_t k = (s.whole[kCountHeldFirst] + i) % s.holds;
    const double* row = s.held + k * (2 * d + 2);
    fine &= s.due[k] > last && s.due[k] <= t + plan.hold + 1 && within(row, 2 * d, -most, most) &&
            row[2 * d] > 0 && row[2 * d] <= plan.memory &&
            (std::isnan(row[2 * d + 1]) || std::fabs(row[2 * d + 1]) <= 1e6);
    last = s.due[k];
  }
  return fine;
}

// Answers, and alerts that wait for one.
inline bool sound_answers(const DensityCell& at, const Answering& asked) {
  const Answers& a = at.s.answers;
  const int64_t d = at.s.d, t = at.s.whole[kCountT], count = at.counts[0];
  const double most = 2.01 * kLargest, none = std::numeric_limits<double>::infinity();
  if (!within(at.counts[0], 0, t) || !within(at.counts[1], 0, t) ||
      !within(at.counts[2], 0, count) || !within(at.counts[3], 0, at.counts[2]))
    return false;
  if (a.room < std::min(count, asked.kept) || !within(at.theta, 2, -kMostState, kMostState) ||
      at.theta[1] < 0 || (asked.judges && at.theta[0] > asked.high))
    return false;
  const int64_t held = std::min(count, a.room), first = count > a.room ? count : 0;
  bool fine = within(a.asked, a.room * (3 * d + 2), -most, most);
  for (int64_t i = 0, last = -1; i < held; ++i) {
    const int64_t k = (first + i) % a.room;
    fine &= a.asked_at[k] > last && a.asked_at[k] < t && a.said[k] <= 2;
    last = a.asked_at[k];
  }
  int64_t bad = 0;
  for (int64_t i = 0; i < a.count; ++i) {
    const double* p = at.places + i * 15 * d;
    fine &= within(p, 3 * d, -most, most) && within(p + 3 * d, 3 * d, 5e-324, none) &&
            within(p + 6 * d, 3 * d, -1e6, 1e6) && within(p + 9 * d, 3 * d, 0, 1.000001) &&
            within(p + 12 * d, 3 * d, 5e-324, none) && within(at.radius + 4 * i, 3, 5e-324, none) &&
            within(at.radius + 4 * i + 3, 1, 1, 1e9) && within(at.strength + i, 1, 0, 1e6) &&
            within(at.born[i], 0, t) && within(at.alert[i], 0, t - 1);
    bad += at.strength[i] > 0;
  }
  return fine && bad <= kMostAnswers && a.count - bad <= kMostAnswers;
}

inline bool sound_metric(const DensityCell& at) {
  const Density& s = at.s;
  if (!at.head.settled) return true;
  const double most = 2.01 * kLargest, none = std::numeric_limits<double>::infinity();
  const bool judges = s.real[kLevelWidth] > 0;
  return within(s.center, 3 * s.d, -most, most) &&
         within(s.scale, 3 * s.d, judges ? 5e-324 : 0, 2 * most) &&
         within(s.z, 3 * s.d * s.places, -1e9, 1e9) &&
         within(s.late_z, s.d * s.late_places, -1e9, 1e9) &&
         within(s.sums, 7 * s.places, 0, none) && within(s.late_sums, 2 * s.late_places, 0, none);
}

inline bool DensityCells::sound(Byte* cell) const {
  DensityHead h;
  std::memcpy(&h, cell, sizeof h);
  if (!within(h.asked_room, 0, answering.kept) || !within(h.answers, 0, 2 * kMostAnswers) ||
      !sound_head(h, plan, d, recent))
    return false;
  const DensityCell at = DensityCell::of(cell, d);
  if (!sound_counts(h, plan, at.s.whole) || !sound_levels(h, plan, at.s.real) ||
      !sound_rows(at, plan) || !sound_metric(at) || !sound_answers(at, answering) ||
      !sound_recent(at.recent, h.recent_room, h.recent_at, h.recent_count, recent))
    return false;
  const int64_t told = at.s.whole[kCountHistory];  // what was ranked is ranked again
  for (int64_t i = 0; i < told; ++i) at.s.history[i] += 0.0;
  std::copy_n(at.s.history, told, at.s.ranked);
  std::sort(at.s.ranked, at.s.ranked + told);
  return true;
}

// -- models with terms

// Places for terms: all slots of a long ring, a power of two of a short one.
inline bool sound_room(const TermHead& h) {
  if (h.panels == 0) return h.room == 0 && h.count == 0;
  if (h.panels > 1) return h.room == int64_t{h.panels} * kLanes && h.flags & kWide;
  return within(h.room, std::max(h.count, 1), kLanes) && (h.room & (h.room - 1)) == 0;
}

inline bool sound_head(const TermHead& h, const TermPlan& plan) {
  const int64_t slots = int64_t{h.panels} * kLanes, room = std::max<int64_t>(h.count, 0) + kAhead;
  const int64_t most = std::max(std::min(plan.limit, int64_t{1} << 40), room) / kLanes * 3 / 2 + 3;
  const bool binary = h.flags & kBinary;
  return h.version == kTermVersion && within(h.flags, 0, 31) && within(h.t, 0, kMostCounted) &&
         within(h.mistakes, 0, h.t) && within(h.columns, 0, 1 << 20) && within(h.panels, 0, most) &&
         within(h.count, 0, std::min(slots, std::min(h.t, plan.cap))) &&
         within(h.head, 0, std::max<int64_t>(slots - 1, 0)) && sound_room(h) &&
         within(h.recent_room, 0, plan.recent) && within(h.labels, 0, 1 << 20) &&
         within(h.counted, 0, 1 << 20) && h.named >= 0 && h.spare == 0 &&
         (!binary || (h.columns == 1 && h.labels == 2)) && (h.flags & kWide || h.t < kNarrow);
}

template <class T>
inline bool sound_units(const TermPlan& plan, const TermHead& h, const TermArrays<T>& a) {
  const int64_t d = plan.d, c = plan.targets ? h.columns : 0;
  const bool moments = plan.scale || plan.gaps;
  const double mean = 1.001e152, variance = 4.01e304, most = 1e305;
  return within(a.seen, moments ? (plan.gaps ? d : 1) : 0, 0, 1e300) &&
         within(a.mean, moments ? d : 0, -mean, mean) &&
         within(a.variance, moments ? d : 0, 0, variance) &&
         within(a.means, plan.gaps ? d : 0, -mean, mean) && within(a.center, d, -most, most) &&
         within(a.width, d, 5e-324, most) && within(a.frame_mean, d, -most, most) &&
         within(a.shift, plan.invariant ? 0 : d, -most, most) && within(a.power, d, -1074, 1023) &&
         within(a.known, d, 0, 1) && within(a.units, c, 0, 1) &&
         within(a.target_center, c, -most, most) && within(a.target_spread, c, 5e-324, most) &&
         within(a.target_seen, c, 0, 1e300) && within(a.target_mean, c, -mean, mean) &&
         within(a.target_variance, c, 0, variance);
}

template <class T>
inline bool sound_state(const TermHead& h, const TermArrays<T>& a) {
  for (int64_t c = 0; c < h.columns; ++c) {
    const double* s = a.state + c * kFields;
    for (int f = 0; f < kFields; ++f) {
      const bool shown = f >= kFieldLoss && f < kFieldMarginErrors;
      const bool count = f == kFieldNorm2 || f == kFieldTrials || f == kFieldWeight ||
                         f == kFieldOutside || f == kFieldAlerts || f == kFieldUpdates;
      if (!shown && !(std::fabs(s[f]) < kMostState)) return false;
      if (count && s[f] < 0) return false;
    }
    if (s[kFieldScale] == 0) return false;
  }
  return true;
}

template <class T>
inline bool sound_link(const TermPlan& plan, const TermHead& h, const TermArrays<T>& a) {
  if (!plan.link) return true;
  const int64_t classes = std::max<int64_t>(h.columns, 2);
  const double *link = a.link, *lone = a.link + kLink + 2 * classes;
  return link[0] >= kFlattest / 2 && link[0] <= kSteepest && link[1] > 0 && link[1] < kMostState &&
         link[2] >= kLeastLapse && link[2] <= kMostLapse &&
         within(link + kLink, classes, -kMostState, kMostState) &&
         within(link + kLink + classes, classes, 1e-6, kMostState) &&
         within(lone, 2, -kMostState, kMostState) && within(lone + 2, 1, 1e-300, kMostState) &&
         within(lone + 3, 1, 0, kMostState) && std::fabs(lone[4] - 1) <= 1e-6 &&
         within(lone + 5, 2, 0, kMostState) && within(*a.linked, 0, h.t);
}

// Labels and counts; `known` is how many labels the fleet has.
template <class T>
inline bool sound_labels(const TermHead& h, const TermArrays<T>& a, bool classes, int64_t known) {
  const auto distinct = [](const int32_t* values, int64_t n) {
    std::vector<int32_t> sorted(values, values + n);
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    return twice == sorted.end() || *twice < 0;
  };
  if (!classes) return !h.labels && !h.counted && !(h.flags & kBinary);
  const int64_t least = h.flags & kBinary ? -1 : 0;
  const auto last = static_cast<double>(known - 1);
  return (h.flags & kBinary || h.labels == h.columns) &&
         within(a.labels, h.labels, static_cast<double>(least), last) &&
         within(a.counted, h.counted, 0, last) && distinct(a.labels, h.labels) &&
         distinct(a.counted, h.counted) && within(a.counts, h.counted, 1, static_cast<double>(h.t));
}

template <class T>
inline bool sound_terms(const TermPlan& plan, const TermHead& h, const TermArrays<T>& a) {
  int64_t last = 0;
  for (int64_t i = 0; i < h.count; ++i) {
    const int64_t place = (h.head + i) % (h.panels * kLanes) % h.room;
    const int64_t birth = h.flags & kWide ? a.wide_births[place] : a.births[place];
    if (birth <= last || birth > h.t) return false;
    last = birth;
  }
  const double none = std::numeric_limits<double>::infinity();
  return within(a.rows, plan.d * h.room, -none, none) && within(a.norms, h.room, 0, none) &&
         within(a.coef, h.columns * h.room, -1.7e308, 1.7e308);
}

template <class T>
inline bool TermCells<T>::sound(Byte* cell) const {
  TermHead h;
  std::memcpy(&h, cell, sizeof h);
  if (!sound_head(h, plan) || TermArrays<T>(plan, h, nullptr).size != h.size) return false;
  const TermArrays<T> a(plan, h, cell);
  const bool clocked = std::isfinite(plan.duration);
  const bool none = std::isnan(h.clock) && std::isnan(h.refreshed);  // of rows of weight 0, too
  if (clocked ? !(std::isfinite(h.clock) && h.refreshed <= h.clock) && !(none && h.t == 0) : !none)
    return false;
  if (task != kClassification && h.columns < 1) return false;
  if (task == kNovelty && h.columns != 1) return false;
  return sound_units(plan, h, a) && sound_state(h, a) && sound_link(plan, h, a) &&
         sound_labels(h, a, task == kClassification, whole(sides)) && sound_terms(plan, h, a) &&
         within(a.warm, h.flags & kWarm ? 3 : 0, -kMostState, kMostState) &&
         (task == kNovelty
              ? sound_recent(a.recent, h.recent_room, h.recent_at, h.recent_count, plan.recent)
              : !h.recent_room);
}

}  // namespace onkel
