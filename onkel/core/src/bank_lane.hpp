// The fast lane for a bank: rows learned in place by every member, a few tiles at a time, while
// nothing unusual happens. Sums over the stored terms and the rows among themselves are made once
// for all members; then come the scalar steps, member by member; then the terms are written. What
// they cannot do (a wipe, a step that is not finite, more terms than there is room for) is left
// undone for the caller (onkel/learner/engines/bank.py). No term goes inside a block; a ring that
// has become full lets some go at once.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "api.hpp"
#include "bank.hpp"
#include "lane.hpp"

namespace {

using onkel::BankLane;
using onkel::BankMember;

constexpr int64_t kFewTerms = 1 << 11;  // below so much to sum, one tile of rows at a time

// Numbers of a block of up to kBankGroups tiles, one after another in one piece of memory.
struct BankNumbers {
  static int64_t room(int64_t kernels, int64_t columns, int64_t outputs, int64_t rows) {
    return kernels * rows * (rows + 1) + 2 * columns * rows + 4 * outputs * rows +
           columns * onkel::kFields;
  }
  BankNumbers(double* at, int64_t kernels, int64_t columns, int64_t outputs, int64_t rows)
      : diag(at),
        pairs(diag + kernels * rows),
        sums(pairs + kernels * rows * rows),
        coef(sums + columns * rows),
        base(coef + columns * rows),
        score(base + outputs * rows),
        limit(score + outputs * rows),
        own(limit + outputs * rows),
        state(own + outputs * rows) {}
  double *diag, *pairs;                // [kernel][row], [kernel][row][row]
  double *sums, *coef;                 // [row][column]
  double *base, *score, *limit, *own;  // [row][output] of the member whose turn it is
  double* state;                       // [column][field]
};

template <class T, int R>
struct BankScratch {
  static constexpr int64_t rows = kBankGroups * R;
  explicit BankScratch(const BankLane<T>& k)
      : reals(2 * (kBankGroups + 1) * R * room_for<R>(k.d)),
        numbers(k.d + BankNumbers::room(k.programs.count, k.columns, k.outputs, rows)),
        at(numbers.data + k.d, k.programs.count, k.columns, k.outputs, rows),
        flags(3 * rows + k.outputs),
        sums(k.columns, kBankGroups) {
    std::memset(&own, 0, sizeof own);  // lanes that no pair fills are looked at all the same
    for (int64_t j = 0; j < k.d; ++j) numbers.data[j] = k.clip / k.width[j];
    const int64_t size = R * room_for<R>(k.d);
    rows_at = {numbers.data, reals.data, reals.data + size};
    for (int g = 0; g < kBankGroups; ++g) {
      row_tiles[g].q = reals.data + 2 * (g + 1) * size;
      row_tiles[g].v = row_tiles[g].q + size;
    }
    std::fill_n(cap, rows, int64_t(1) << 60);
    std::fill_n(hosts, rows, onkel::kNoTerm);
  }
  Rows<T, R> rows_at;
  Memory<T> reals;
  Memory<double> numbers;
  BankNumbers at;
  Memory<uint8_t> flags;  // kept, one member's kept and merged; wiped
  BankSums<T, R> sums;
  RowTile<T, R> row_tiles[kBankGroups];
  Tile<T, 1> own;
  int64_t cap[rows], hosts[rows], oldest[rows] = {};
};

// k(x, x) of n rows by every kernel; false if one of them is too large.
template <class T, int R>
inline bool take_diagonals(const BankLane<T>& k, BankScratch<T, R>& m, int64_t n) {
  for (int64_t i = 0; i < k.programs.count; ++i)
    for (int64_t t = 0; t < n; ++t) {
      const double norm = static_cast<double>(m.row_tiles[t / R].norm[t % R]);
      const double diag = evaluate_one(k.programs.of[i], norm, 0, 0);
      if (!std::isfinite(diag)) return false;
      m.at.diag[i * n + t] = diag;
    }
  return true;
}

// Sums of tiles first ... last - 1 over all terms, in stored units.
template <class T, int R>
inline void sum_tiles(const BankLane<T>& k, const Needs& needs, BankScratch<T, R>& m, int64_t n,
                      int first, int last) {
  Tile<T, R> tile;
  Group<T, R> groups[kBankGroups];
  for (int g = first; g < last; ++g) groups[g - first] = group_of(k, m.row_tiles[g]);
  const int64_t rows = std::min<int64_t>(last * R, n) - first * R;
  double* out = m.at.sums + first * R * k.columns;
  std::fill_n(out, rows * k.columns, 0.0);
  const Panels<T> panels{k.panels, k.norms, k.capacity, k.head / kLanes, used_panels(k)};
  bank_groups<T, R>(k.programs, needs, groups, rows, panels, k.weights, k.columns, tile,
                    m.sums.at + first * k.columns * R, out);
}

// The rows' kernel values at each other, each row up to its own tile.
template <class T, int R>
inline void compare_rows(const BankLane<T>& k, const Needs& needs, BankScratch<T, R>& m,
                         int64_t n) {
  for (int64_t i = 0; n == 1 && i < k.programs.count; ++i) m.at.pairs[i] = m.at.diag[i];
  for (int64_t g = 0; n > 1 && g * R < n; ++g)
    for (int64_t o = 0; o <= g; ++o) {
      compare<T, R>(k, needs, m.row_tiles[g], m.row_tiles[o], m.own);
      for (int64_t i = 0; i < k.programs.count; ++i) {
        fill_values<T, 1>(k.programs, i, m.own);
        double* out = m.at.pairs + (i * n + g * R) * n + o * R;
        for (int64_t a = 0; a < std::min<int64_t>(R, n - g * R); ++a)
          for (int64_t b = 0; b < std::min<int64_t>(R, n - o * R); ++b)
            out[a * n + b] = static_cast<double>(m.own.slot[0][a * R + b]);
      }
    }
}

// The scalar steps of member i; false if something unusual has happened.
template <class T, int R>
inline bool step_member(BankLane<T>& k, BankScratch<T, R>& m, int64_t i, int64_t start, int64_t n) {
  const BankMember& member = k.members[i];
  const int64_t c = k.outputs, first = i * c;
  double* state = m.at.state + first * onkel::kFields;
  for (int64_t t = 0; t < n; ++t)
    for (int64_t o = 0; o < c; ++o)
      m.at.base[t * c + o] =
          m.at.sums[t * k.columns + first + o] * state[o * onkel::kFields + onkel::kFieldScale];
  StepInput in{};
  in.rows = n;
  in.columns = c;
  in.live = k.count;
  in.first_trial = k.first_trial + start;
  in.kernel = m.at.pairs + member.kernel * n * n;
  in.base = m.at.base;
  in.diag = m.at.diag + member.kernel * n;
  in.y = k.y + start * c;
  in.weight = k.weight + start;
  in.eta = k.eta + i * k.stride + start;
  in.lam = k.lam + i * k.stride + start;
  in.cap = m.cap;
  in.hosts = m.hosts;
  in.oldest = m.oldest;
  in.loss = member.loss;
  in.rule = member.rule;
  in.intercept = member.intercept;
  in.budget = onkel::BudgetCode::kOldest;
  in.stop_scale = 1e-100;
  StepOutput out{};
  uint8_t *kept = m.flags.data, *wiped = kept + 3 * m.rows;
  out.state = state;
  out.score = m.at.score;
  out.limit = m.at.limit;
  out.coef = m.at.own;
  out.kept = kept + m.rows;
  out.merged = kept + 2 * m.rows;
  out.wiped = wiped;
  steps(in, out);
  bool clean = out.bad_row < 0 && out.done == n;
  for (int64_t o = 0; o < c; ++o) clean &= !wiped[o];
  for (int64_t t = 0; t < n; ++t) {
    kept[t] |= out.kept[t];
    const int64_t at = t * k.columns + first;
    std::copy_n(m.at.own + t * c, c, m.at.coef + at);
    std::copy_n(m.at.score + t * c, c, k.score + start * k.columns + at);
    std::copy_n(m.at.limit + t * c, c, k.limit + start * k.columns + at);
  }
  return clean;
}

// Learns rows start ... start + n - 1; false if that is left to the caller, nothing changed.
template <class T, int R, class Share>
inline bool learn_members(BankLane<T>& k, BankScratch<T, R>& m, const Needs& needs, int64_t start,
                          int64_t n, Share share) {
  if (k.count + n > k.capacity * kLanes) return false;
  const int groups = static_cast<int>((n + R - 1) / R);
  const auto size = [n](int g) { return std::min<int64_t>(R, n - g * R); };
  for (int g = 0; g < groups; ++g)
    if (!take_rows<T, R>(k, start + g * R, size(g), m.rows_at, m.row_tiles[g])) return false;
  if (!take_diagonals<T, R>(k, m, n)) return false;
  share(groups, [&](int first, int last) { sum_tiles<T, R>(k, needs, m, n, first, last); });
  compare_rows<T, R>(k, needs, m, n);
  std::copy_n(k.state, k.columns * onkel::kFields, m.at.state);
  std::fill_n(m.flags.data, 3 * m.rows, uint8_t(0));
  for (int64_t i = 0; i < k.sharing; ++i)
    if (!step_member<T, R>(k, m, i, start, n)) return false;
  std::copy_n(m.at.state, k.columns * onkel::kFields, k.state);
  std::copy_n(m.flags.data, n, k.kept + start);
  for (int g = 0; g < groups; ++g)
    store_terms<T, R>(k, m.row_tiles[g], size(g), m.flags.data + g * R,
                      m.at.coef + g * R * k.columns, k.first_trial + start + g * R);
  return true;
}

// Lets the oldest terms go, and books what the members lose by it at most.
template <class T>
inline void let_go(BankLane<T>& k) {
  const int64_t n = std::min(k.at_once, k.count);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t slot = slot_of(k, i), first = slot / kLanes * k.columns * kLanes + slot % kLanes;
    for (int64_t m = 0; m < k.sharing; ++m) {
      const Program program = k.programs.of[k.members[m].kernel];
      const double norm = static_cast<double>(k.norms[slot]),
                   size = std::sqrt(std::max(evaluate_one(program, norm, 0, 0), 0.0));
      for (int64_t c = m * k.outputs; c < (m + 1) * k.outputs; ++c) {
        double* s = k.state + c * onkel::kFields;
        s[onkel::kFieldDropped] +=
            std::fabs(s[onkel::kFieldScale] * k.coef[first + c * kLanes]) * size;
      }
    }
  }
  drop_terms(k, n);
  for (int64_t i = 0; i < n; ++i) {  // they stood just before where terms begin now
    const int64_t slots = k.capacity * kLanes;
    set_weights(k, (k.head + slots - 1 - i) % slots, true);  // of coefficients that are 0
  }
}

// How many tiles at a time is a matter of how much there is to sum, never of the threads: the bits
// are the same for any number of them.
template <class T, int R>
inline void learn_bank_rows(BankLane<T>& k) {
  Placed<BankScratch<T, R>> memory(k);
  const Needs needs = needs_of_all(k.programs);
  const int64_t much = k.count * (k.d + kExp);
  Team team(R > 1 && much > kShared ? k.threads : 1);
  const int workers = R > 1 && much > kShared ? std::max(k.threads, 1) : 1;
  const auto share = [&](int groups, auto work) {
    const int each = (groups + workers - 1) / workers, pieces = (groups + each - 1) / each;
    team.share(pieces,
               [&](int piece) { work(piece * each, std::min((piece + 1) * each, groups)); });
  };
  while (k.done < k.rows && k.count < k.cap) {
    const int64_t most = R > 1 && much > kFewTerms ? kBankGroups * R : R;
    const int64_t n = std::min({most, k.rows - k.done, k.cap - k.count});
    if (!learn_members<T, R>(k, *memory, needs, k.done, n, share)) return;
    k.done += n;
    if (must_fold(k)) return;
    if (k.count >= k.cap && k.at_once > 0) let_go(k);
  }
}

template <class T>
void learn_bank(BankLane<T>& k) {
  k.done = 0;
  if (k.rows == 1)
    learn_bank_rows<T, 1>(k);
  else
    learn_bank_rows<T, kTile>(k);
}

// The scores of one row as things are; false if it is not for here. Nothing is changed.
template <class T>
bool look_bank(BankLane<T>& k) {
  Placed<BankScratch<T, 1>> placed(k);
  BankScratch<T, 1>* memory = &*placed;
  if (!take_rows<T, 1>(k, 0, 1, memory->rows_at, memory->row_tiles[0])) return false;
  if (!take_diagonals<T, 1>(k, *memory, 1)) return false;
  sum_tiles<T, 1>(k, needs_of_all(k.programs), *memory, 1, 0, 1);
  for (int64_t c = 0; c < k.columns; ++c) {
    const double* s = k.state + c * onkel::kFields;
    k.score[c] = memory->at.sums[c] * s[onkel::kFieldScale] + s[onkel::kFieldOffset];
  }
  return true;
}

}  // namespace
