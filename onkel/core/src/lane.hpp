// The fast lane: rows learned in place, a few at a time, while nothing unusual happens. For each
// few tiles of rows: sums over the stored terms, the rows against themselves and against the terms
// they may push out, the scalar steps, then the terms are written. What they cannot do (a wipe, a
// norm that cancelled, a step that is not finite) is left undone for the caller, who has the
// general path (onkel/learner/engines/block.py).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "api.hpp"
#include "row_tile.hpp"
#include "steps.hpp"
#include "threads.hpp"

namespace {

constexpr int64_t kMostOld = 64;      // terms that a few tiles of rows may push out
constexpr int kGroups = 4;            // tiles of rows at a time, where there is much to sum
constexpr int kOldGroups = 4;         // and of terms that may go, for rules that keep the norm
constexpr int64_t kShared = 1 << 16;  // from so much to sum on
constexpr int64_t kExp = 16;          // an exponential costs as much as so many features
constexpr double kFold = 1e-3;        // a global scale below this, or above its inverse, is far

// How many of the oldest terms these rows may push out.
template <class T>
inline int64_t droppable(const Lane<T>& k, int64_t start, int64_t n) {
  const int64_t oldest = k.oldest[start + n - 1];
  int64_t old = std::max<int64_t>(k.count + n - k.cap, 0);
  while (old < k.count && old <= kMostOld && k.births[slot_of(k, old)] < oldest) ++old;
  return std::min(old, k.count);
}

// How many rows may come: any where the oldest terms go one by one, else what the window holds.
template <class T>
inline int64_t room_in(const Lane<T>& k) {
  return k.budget == BudgetCode::kOldest ? k.rows : k.cap - k.count;
}

template <class T>
inline void set_weights(Lane<T>& k, int64_t slot, bool live) {
  const int64_t panel = slot / kLanes, lane = slot % kLanes;
  for (int64_t c = 0; c < k.columns; ++c) {
    const int64_t at = (panel * k.columns + c) * kLanes + lane;
    k.weights[at] = live ? static_cast<T>(k.coef[at]) : T(0);
  }
}

template <class T>
inline void drop_terms(Lane<T>& k, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t slot = slot_of(k, i), panel = slot / kLanes, lane = slot % kLanes;
    for (int64_t c = 0; c < k.columns; ++c) k.coef[(panel * k.columns + c) * kLanes + lane] = 0;
  }
  k.head = slot_of(k, n);
  k.count -= n;  // an empty ring goes on where it is: that is where the caller expects new terms
}

// Writes the rows that were kept behind the terms there are.
template <class T, int R>
inline void store_terms(Lane<T>& k, const RowTile<T, R>& h, int64_t n, const uint8_t* kept,
                        const double* coef, int64_t first_trial) {
  const int64_t first = slot_of(k, k.count), lane = first % kLanes;
  bool together = lane + n <= kLanes;
  for (int64_t i = 0; i < n; ++i) together &= kept[i];
  T* values = k.panels + first / kLanes * k.d * kLanes + lane;
  if (together && n == R) {
    typedef T Row __attribute__((vector_size(R * sizeof(T))));
    for (int64_t j = 0; j < k.d; ++j) store(values + j * kLanes, load<Row>(h.v + j * R));
  } else if (together) {
    for (int64_t j = 0; j < k.d; ++j)
      for (int64_t i = 0; i < n; ++i) values[j * kLanes + i] = h.v[j * R + i];
  }
  for (int64_t i = 0; i < n; ++i) {
    if (!kept[i]) continue;
    const int64_t slot = slot_of(k, k.count++), panel = slot / kLanes;
    T* at = k.panels + panel * k.d * kLanes + slot % kLanes;
    for (int64_t j = 0; !together && j < k.d; ++j) at[j * kLanes] = h.v[j * R + i];
    k.norms[slot] = h.norm[i];
    for (int64_t c = 0; c < k.columns; ++c)
      k.coef[(panel * k.columns + c) * kLanes + slot % kLanes] = coef[i * k.columns + c];
    set_weights(k, slot, true);
    k.births[slot] = first_trial + i;
  }
}

// Whether a global scale has gone so far that the caller must fold it into the coefficients.
template <class T>
inline bool must_fold(const Lane<T>& k) {
  for (int64_t c = 0; c < k.columns; ++c) {
    const double scale = std::fabs(k.state[c * onkel::kFields + onkel::kFieldScale]);
    if (scale < kFold || scale * kFold > 1) return true;
  }
  return false;
}

// What a block of up to kGroups tiles needs, allocated once per call.
template <class T, int R>
struct Scratch {
  static constexpr int groups = R > 1 ? kGroups : 1;  // a single row comes alone
  static constexpr int64_t rows = groups * R, most = kMostOld + rows;
  static constexpr int tiles_at_most = groups + kOldGroups;
  static int64_t asked(const Lane<T>& k) { return k.needs_norm ? tiles_at_most * R : rows; }
  explicit Scratch(const Lane<T>& k)
      : reals(2 * (asked(k) + R) * room_for<R>(k.d)),
        numbers(k.d + most + asked(k) * most +
                (asked(k) + rows + kMostOld + onkel::kFields) * k.columns),
        whole(kMostOld + 2 * rows),
        flags(2 * rows + k.columns) {
    if (R > 1) std::memset(&own, 0, sizeof own);  // lanes without a pair are looked at as well
    for (int64_t j = 0; j < k.d; ++j) numbers.data[j] = k.clip / k.width[j];
    const int64_t size = R * room_for<R>(k.d);
    rows_at = {numbers.data, reals.data, reals.data + size};
    for (int g = 0; g < asked(k) / R; ++g) {
      row_tiles[g].q = reals.data + 2 * (g + 1) * size;
      row_tiles[g].v = row_tiles[g].q + size;
    }
  }
  Rows<T, R> rows_at;
  Memory<T> reals;
  Memory<double> numbers;
  Memory<int64_t> whole;
  Memory<uint8_t> flags;
  RowTile<T, R> row_tiles[tiles_at_most];  // the rows, then the terms that may go
  Tile<T, R> tiles[tiles_at_most];
  Tile<T, 1> own;
};

// The scalar steps of a block, on numbers that are ready; what they made of them.
struct Numbers {
  double *diag, *kernel, *base, *old_coef, *coef, *state;
  int64_t *births, *cap, *hosts;
  uint8_t *kept, *merged, *wiped;
};

template <class T>
inline StepOutput run_steps(const Lane<T>& k, const Numbers& at, int64_t start, int64_t n,
                            int64_t old) {
  StepInput in{};
  in.rows = n;
  in.columns = k.columns;
  in.old_count = old;
  in.live = k.count;
  in.first_trial = k.first_trial + start;
  in.kernel = at.kernel;
  in.base = at.base;
  in.old_coef = at.old_coef;
  in.diag = at.diag;
  in.births = at.births;
  in.y = k.y + start * k.columns;
  in.weight = k.weight + start;
  in.eta = k.eta + start;
  in.lam = k.lam + start;
  in.cap = at.cap;
  in.hosts = at.hosts;
  in.oldest = k.oldest + start;
  in.loss = k.loss;
  in.rule = k.rule;
  in.intercept = k.intercept;
  in.needs_norm = k.needs_norm;
  in.budget = k.budget;
  in.stop_scale = 1e-100;
  StepOutput out{};
  out.state = at.state;
  out.score = k.score + start * k.columns;
  out.limit = k.limit + start * k.columns;
  out.coef = at.coef;
  out.kept = at.kept;
  out.merged = at.merged;
  out.wiped = at.wiped;
  steps(in, out);
  return out;
}

template <class T, int R>
inline Numbers numbers_of(const Lane<T>& k, Scratch<T, R>& memory, int64_t n, int64_t old) {
  const int64_t all = old + n, columns = k.columns;
  Numbers at;
  at.diag = memory.numbers.data + k.d;
  const int64_t asked = k.needs_norm ? all : n;
  at.kernel = at.diag + all;
  at.base = at.kernel + asked * all;
  at.old_coef = at.base + asked * columns;
  at.coef = at.old_coef + columns * old;
  at.state = at.coef + n * columns;
  at.births = memory.whole.data;
  at.cap = at.births + kMostOld;
  at.hosts = at.cap + Scratch<T, R>::rows;
  at.kept = memory.flags.data;
  at.merged = at.kept + Scratch<T, R>::rows;
  at.wiped = at.merged + Scratch<T, R>::rows;
  return at;
}

// Sets the terms that may go aside: they are followed one by one, not in the sums.
template <class T>
inline void set_aside(Lane<T>& k, const Numbers& at, int64_t old) {
  for (int64_t i = 0; i < old; ++i) {
    const int64_t slot = slot_of(k, i);
    at.births[i] = k.births[slot];
    at.diag[i] = evaluate_one(k.program, static_cast<double>(k.norms[slot]), 0, 0);
    for (int64_t c = 0; c < k.columns; ++c)
      at.old_coef[c * old + i] = k.state[c * onkel::kFields + onkel::kFieldScale] *
                                 k.coef[(slot / kLanes * k.columns + c) * kLanes + slot % kLanes];
    set_weights(k, slot, false);
  }
}

// What `steps` asks of rows start ... start + n - 1: their sums and kernel values, and, where the
// norm is kept, those of the `old` terms that may go, which stand before them.
template <class T, int R, class Share>
inline void ask(Lane<T>& k, Scratch<T, R>& memory, const Numbers& at, int64_t n, int64_t old,
                Share share) {
  const Needs needs = needs_of(k.program);
  const int64_t all = old + n, lead = k.needs_norm ? old : 0;
  const int rows = static_cast<int>((n + R - 1) / R), terms = static_cast<int>((lead + R - 1) / R);
  const auto size = [n](int g) { return std::min<int64_t>(R, n - g * R); };
  for (int g = 0; g < terms; ++g)
    take_terms<T, R>(k, g * R, std::min<int64_t>(R, old - g * R), memory.rows_at,
                     memory.row_tiles[Scratch<T, R>::groups + g]);
  share(rows + terms, [&](int g) {
    const bool row = g < rows;
    const int64_t first = row ? lead + g * R : (g - rows) * R,
                  room = row ? n - g * R : lead - first;
    const int which = row ? g : Scratch<T, R>::groups + g - rows;
    against_terms<T, R>(k, needs, memory.row_tiles[which], memory.tiles[which],
                        {std::min<int64_t>(R, room), old, all, at.base + first * k.columns,
                         at.kernel + first * all});
  });
  double* own = at.kernel + lead * all + old;
  if (n == 1) own[0] = memory.row_tiles[0].diag[0];
  for (int g = 0; n > 1 && g < rows; ++g)
    for (int o = 0; o <= g; ++o) {
      const T* values = among<T, R>(k, needs, memory.row_tiles[g], memory.row_tiles[o], memory.own);
      for (int64_t i = 0; i < size(g); ++i)
        for (int64_t j = 0; j < size(o); ++j)
          own[(g * R + i) * all + o * R + j] = static_cast<double>(values[i * R + j]);
    }
  if (!k.needs_norm) return;  // else a term that goes is asked about those after it
  for (int64_t i = 0; i < all; ++i)
    for (int64_t j = std::max(old, i + 1); j < all; ++j)
      at.kernel[i * all + j] = at.kernel[j * all + i];
}

// Learns rows start ... start + n - 1; false if that is left to the caller, nothing changed.
template <class T, int R, class Share>
inline bool learn_block(Lane<T>& k, Scratch<T, R>& memory, int64_t start, int64_t n, Share share) {
  const int64_t columns = k.columns, old = droppable(k, start, n);
  if (old > (k.needs_norm ? kOldGroups * R : kMostOld)) return false;
  if (std::min(k.count + n, k.cap) > k.capacity * kLanes) return false;
  const int groups = static_cast<int>((n + R - 1) / R);
  const Numbers at = numbers_of<T, R>(k, memory, n, old);
  const auto size = [n](int g) { return std::min<int64_t>(R, n - g * R); };
  for (int g = 0; g < groups; ++g)
    if (!take_rows<T, R>(k, start + g * R, size(g), memory.rows_at, memory.row_tiles[g]))
      return false;
  set_aside(k, at, old);
  ask<T, R>(k, memory, at, n, old, share);
  for (int64_t i = 0; i < n; ++i) {
    at.diag[old + i] = memory.row_tiles[i / R].diag[i % R];
    at.cap[i] = k.cap;
    at.hosts[i] = onkel::kNoTerm;
    at.kept[i] = at.merged[i] = 0;
  }
  std::copy_n(k.state, columns * onkel::kFields, at.state);
  const StepOutput out = run_steps(k, at, start, n, old);
  bool clean = out.bad_row < 0 && out.done == n && !out.stale_norm;
  for (int64_t c = 0; c < columns; ++c) clean &= !at.wiped[c];
  for (int64_t i = clean ? out.dropped : 0; i < old; ++i) set_weights(k, slot_of(k, i), true);
  if (!clean) return false;
  drop_terms(k, out.dropped);
  std::copy_n(at.state, columns * onkel::kFields, k.state);
  std::copy_n(at.kept, n, k.kept + start);
  for (int g = 0; g < groups; ++g)
    store_terms<T, R>(k, memory.row_tiles[g], size(g), at.kept + g * R, at.coef + g * R * columns,
                      k.first_trial + start + g * R);
  return true;
}

// How many tiles at a time is a matter of how much there is to sum, never of the threads: the bits
// are the same for any number of them.
template <class T, int R>
inline void learn_rows(Lane<T>& k) {
  Placed<Scratch<T, R>> memory(k);
  const bool large = R > 1 && k.count * (k.d + kExp) > kShared;
  Team team(large ? k.threads : 1);
  while (k.done < k.rows) {
    const int64_t n =
        std::min<int64_t>(std::min<int64_t>(large ? kGroups * R : R, room_in(k)), k.rows - k.done);
    if (n < 1 ||
        !learn_block<T, R>(
            k, *memory, k.done, n, [&](int groups, auto work) { team.share(groups, work); }))
      return;
    k.done += n;
    if (must_fold(k)) return;
  }
}

// The score of one row as things are; false if it is not for here. Nothing is changed.
template <class T>
bool look_lane(Lane<T>& k) {
  Placed<Scratch<T, 1>> placed(k);
  Scratch<T, 1>& memory = *placed;
  auto& h = memory.row_tiles[0];
  if (!take_rows<T, 1>(k, 0, 1, memory.rows_at, h)) return false;
  against_terms<T, 1>(k, needs_of(k.program), h, memory.tiles[0], {1, 0, 1, k.score, nullptr});
  for (int64_t c = 0; c < k.columns; ++c)
    k.score[c] += k.state[c * onkel::kFields + onkel::kFieldOffset];
  return true;
}

template <class T>
void learn_lane(Lane<T>& k) {
  k.done = 0;
  if (k.rows == 1)
    learn_rows<T, 1>(k);
  else
    learn_rows<T, kTile>(k);
}

}  // namespace
