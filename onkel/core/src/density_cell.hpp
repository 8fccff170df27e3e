// A self-tuning detector in a cell: the arrays of onkel/core/density.py one after another, as many
// places of each as are needed. Metric, coordinates and sums are there from the first refresh on.
#pragma once
#include <limits>

#include "api.hpp"
#include "cells.hpp"

namespace onkel {

// The beginning of such a cell; onkel/core/cells.py reads and writes the same.
struct DensityHead {
  int64_t size;
  int32_t version, settled;
  int32_t places, late_places, holds, waits, told;
  int32_t recent_room, recent_at, recent_count;
  int32_t asked_room, answers;
};

// What is asked for of answers to alerts (onkel/core/answers.py).
struct Answering {
  int64_t kept;        // alerts that can be answered
  double memory;       // rows after which an answer has faded to a third
  double start, high;  // of theta
  bool judges, alone;  // whether theta does, and instead of the level of the alert rate
};

constexpr int32_t kDensityVersion = 1;

class DensityCell {
 public:
  // Arrays of a cell with this head; `cell` may be null, where only the size is asked for.
  DensityCell(const DensityHead& head, int64_t d, Byte* cell) : head(head) {
    const int64_t ranks = d <= 256 ? d : 1, square = 3 * ranks * d;
    Byte* at = cell + sizeof(DensityHead);
    const auto take = [&at](auto*& to, int64_t n) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(at);
      at += n * static_cast<int64_t>(sizeof *to);
    };
    Density& k = s;
    k = Density{};
    k.d = d, k.ranks = ranks, k.places = head.places, k.late_places = head.late_places;
    k.waits = head.waits, k.holds = head.holds;
    take(k.whole, kCounts), take(k.real, kLevels), take(k.mean, 3 * d), take(k.cov, square);
    take(k.last, d), take(k.smooth, d), take(k.size, d), take(k.calm, 4 * d);
    take(k.raw, 2 * head.places * d), take(k.late_raw, head.late_places * d);
    take(k.held, head.holds * (2 * d + 2)), take(k.due, head.holds);
    take(k.waiting, head.waits * d), take(k.history, head.told), take(k.ranked, head.told);
    take(recent, head.recent_room);
    Answers& a = k.answers;
    a.count = head.answers, a.room = head.asked_room;
    take(counts, 4), take(theta, 2), take(a.asked, a.room * (3 * d + 2)), take(a.asked_at, a.room);
    take(places, a.count * 15 * d), take(radius, a.count * 4), take(strength, a.count);
    take(born, a.count), take(alert, a.count);
    a.asked_count = counts, a.places = places, a.radius = radius, a.strength = strength;
    a.born = born;
    if (head.settled) {
      take(k.center, 3 * d), take(k.scale, 3 * d), take(k.turn, square);
      take(k.z, 3 * d * head.places), take(k.late_z, d * head.late_places);
      take(k.sums, 7 * head.places), take(k.late_sums, 2 * head.late_places);
    }
    take(k.marks, head.places), take(a.said, a.room);
    size = (at - cell + 7) / 8 * 8;
  }

  static DensityCell of(Byte* cell, int64_t d) {
    DensityHead head;
    std::memcpy(&head, cell, sizeof head);
    return {head, d, cell};
  }

  DensityHead head;
  Density s;
  double* recent;
  int64_t* counts;  // of alerts, of rows that answers kept from being one, of answers, dismissals
  double* theta;    // and what its upper limit cut off
  double *places, *radius, *strength;
  int64_t *born, *alert;
  int64_t size;
};

// Detectors of one plan.
class DensityCells {
 public:
  DensityCells(const DensityPlan& plan, int64_t d, int64_t recent, const Answering& answering)
      : plan(plan), d(d), recent(recent), answering(answering) {}

  // Judges rows [rows][d] of one cell and learns those of a weight above 0 (null: none); `out`
  // [rows][6] has log p, the level, alert, joined score, the rank where that is asked for, and the
  // rows learned before; `usual` (or null) means and variances before each row.
  void learn(int64_t number, const double* x, const double* weight, int64_t rows, bool ranked,
             double* out, double* usual) {
    Byte* cell = cells.at(number);
    const int64_t live =
        weight ? std::count_if(weight, weight + rows, [](double w) { return w > 0; }) : 0;
    if (!cell || live) cell = roomy(number, live);
    DensityCell at = DensityCell::of(cell, d);
    std::vector<double> said(static_cast<size_t>(4 * rows));
    at.s.rows = rows, at.s.x = x, at.s.weight = weight, at.s.out = said.data();
    at.s.usual = usual;
    Answers& a = at.s.answers;
    a.memory = answering.memory, a.theta = *at.theta;
    a.judges = answering.judges, a.alone = answering.alone;
    int64_t age = at.s.whole[kCountT];
    current_table().density(plan, at.s);
    DensityHead* head = reinterpret_cast<DensityHead*>(cell);
    const Recent last{at.recent, head->recent_room, recent, &head->recent_at, &head->recent_count};
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(said.data() + 4 * i, 4, out + 6 * i);
      out[6 * i + 4] = ranked ? last.rank(out[6 * i]) : NAN;
      out[6 * i + 5] = static_cast<double>(age);
      if (!weight || !(weight[i] > 0)) continue;
      last.add(out[6 * i]);
      ++age;
    }
  }

  // Whether a cell is such as rows can have left; nothing is believed.
  bool sound(Byte* cell) const;  // in sound_cells.hpp

  const DensityPlan plan;
  const int64_t d, recent;
  const Answering answering;
  Cells cells;

 private:
  static int64_t grown(int64_t there, int64_t wanted, int64_t most, int64_t by) {
    if (wanted <= there) return there;
    const int64_t more = std::min(std::max(wanted, there + there / 4), std::max(most, wanted));
    return (more + by - 1) / by * by;
  }

  // What a cell must have room for, before so many more rows are learned.
  DensityHead wanted(const DensityHead& now, const int64_t* n, int64_t asked, int64_t rows) const {
    const int64_t t = n[kCountT] + rows, later = rows + n[kCountHeld];
    const int64_t pending = n[kCountT] - n[kCountLateSeen], lag = std::min(plan.delay, t / 2);
    DensityHead to = now;
    to.settled = now.settled || t >= plan.young;
    const int64_t by = to.settled ? 16 : 4;
    const auto set = [](int32_t& field, int64_t value) { field = static_cast<int32_t>(value); };
    set(to.places, grown(now.places, std::min(n[kCountSize] + later, plan.terms), plan.terms, by));
    set(to.late_places,
        grown(now.late_places,
              std::min(n[kCountLateSize] + std::max<int64_t>(t - lag - n[kCountLateSeen], 0),
                       plan.late_terms),
              plan.late_terms, by));
    if (to.settled) {  // vectors of terms are read whole
      set(to.places, (to.places + 15) / 16 * 16);
      set(to.late_places, std::max(16, (to.late_places + 15) / 16 * 16));
      set(to.told,
          grown(now.told, std::min(n[kCountHistory] + later, plan.history), plan.history, 8));
    }
    const int64_t alarmed = t > plan.warmup ? rows : 0;
    set(to.holds,
        grown(now.holds, std::max<int64_t>(std::min(n[kCountHeld] + alarmed, plan.hold + 1), 1),
              plan.hold + 1, 1));
    if (alarmed)
      set(to.asked_room,
          grown(now.asked_room, std::min(asked + alarmed, answering.kept), answering.kept, 1));
    set(to.waits, grown(now.waits, std::max(pending + 1, std::min(pending + rows, lag + 1)),
                        plan.delay + 1, 1));
    set(to.recent_room, Recent::room_for(now.recent_room, now.recent_count, rows, recent));
    return to;
  }

  // A cell with room for so many more rows, the old one or a larger one in its place.
  Byte* roomy(int64_t number, int64_t rows) {
    Byte* old = cells.at(number);
    if (!old) {
      DensityHead head{};
      head.version = kDensityVersion;
      const std::vector<int64_t> none(kCounts, 0);
      Byte* fresh = made(wanted(head, none.data(), 0, rows));
      DensityCell at = DensityCell::of(fresh, d);
      at.s.real[kLevelLogAlpha] = at.s.real[kLevelStart] = std::log(plan.nu);
      at.s.real[kLevelRecent] = plan.nu;
      *at.theta = answering.start;
      cells.put(number, fresh);
      return fresh;
    }
    const DensityCell from = DensityCell::of(old, d);
    const DensityHead to = wanted(from.head, from.s.whole, from.counts[0], rows);
    if (!std::memcmp(&to, &from.head, sizeof to)) return old;
    Byte* fresh = made(to);
    copy(from, DensityCell::of(fresh, d));
    cells.put(number, fresh);
    return fresh;
  }

  // An empty cell with places for what its head says.
  Byte* made(DensityHead head) const {
    head.size = DensityCell(head, d, nullptr).size;
    Byte* fresh = new_cell(head.size);
    std::memcpy(fresh, &head, sizeof head);
    const DensityCell at = DensityCell::of(fresh, d);
    if (head.settled) {
      constexpr float kNowhere = 1e9f, kNone = std::numeric_limits<float>::infinity();
      std::fill_n(at.s.z, 3 * d * at.s.places, kNowhere);
      std::fill_n(at.s.late_z, d * at.s.late_places, kNowhere);
      std::fill_n(at.s.sums, 7 * at.s.places, kNone);
      std::fill_n(at.s.late_sums, 2 * at.s.late_places, kNone);
    }
    return fresh;
  }

  void copy(const DensityCell& from, const DensityCell& to) const {
    const Density &a = from.s, &b = to.s;
    const int64_t square = 3 * a.ranks * d;
    const auto lines = [](const auto* x, auto* y, int64_t count, int64_t old, int64_t now) {
      for (int64_t i = 0; i < count; ++i) std::copy_n(x + i * old, std::min(old, now), y + i * now);
    };
    std::copy_n(a.whole, kCounts, b.whole), std::copy_n(a.real, kLevels, b.real);
    std::copy_n(a.mean, 3 * d, b.mean), std::copy_n(a.cov, square, b.cov);
    std::copy_n(a.last, d, b.last), std::copy_n(a.smooth, d, b.smooth);
    std::copy_n(a.size, d, b.size), std::copy_n(a.calm, 4 * d, b.calm);
    lines(a.raw, b.raw, 2, a.places * d, b.places * d);
    std::copy_n(a.late_raw, a.late_places * d, b.late_raw);
    int64_t& first = b.whole[kCountHeldFirst];
    for (int64_t i = 0; i < a.whole[kCountHeld]; ++i) {
      const int64_t at = (first + i) % a.holds;
      std::copy_n(a.held + at * (2 * d + 2), 2 * d + 2, b.held + i * (2 * d + 2));
      b.due[i] = a.due[at];
    }
    first = 0;
    for (int64_t i = a.whole[kCountLateSeen]; i < a.whole[kCountT]; ++i)
      std::copy_n(a.waiting + i % a.waits * d, d, b.waiting + i % b.waits * d);
    std::copy_n(a.history, from.head.told, b.history),
        std::copy_n(a.ranked, from.head.told, b.ranked);
    std::copy_n(from.recent, from.head.recent_room, to.recent);
    std::copy_n(from.counts, 4, to.counts), std::copy_n(from.theta, 2, to.theta);
    const Answers &old = a.answers, &now = b.answers;  // a ring grows before it is full
    std::copy_n(old.asked, old.room * (3 * d + 2), now.asked);
    std::copy_n(old.asked_at, old.room, now.asked_at), std::copy_n(old.said, old.room, now.said);
    std::copy_n(from.places, old.count * 15 * d, to.places);
    std::copy_n(from.radius, old.count * 4, to.radius);
    std::copy_n(from.strength, old.count, to.strength);
    std::copy_n(from.born, old.count, to.born), std::copy_n(from.alert, old.count, to.alert);
    std::copy_n(a.marks, a.places, b.marks);
    if (!from.head.settled) return;
    std::copy_n(a.center, 3 * d, b.center), std::copy_n(a.scale, 3 * d, b.scale);
    std::copy_n(a.turn, square, b.turn);
    lines(a.z, b.z, 3 * d, a.places, b.places);
    lines(a.late_z, b.late_z, d, a.late_places, b.late_places);
    lines(a.sums, b.sums, 7, a.places, b.places);
    lines(a.late_sums, b.late_sums, 2, a.late_places, b.late_places);
  }
};

}  // namespace onkel
