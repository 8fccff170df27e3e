// A window that is full is brought down to fewer terms: one after another the smallest leaves, and
// what it gave is dropped, merged with a partner's or projected on its nearest neighbours (then one
// of the smallest quarter leaves, which another term can stand for). The readable form is
// onkel/core/numpy_budgets.py.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "api.hpp"
#include "formulas.hpp"
#include "rows.hpp"
#include "simd.hpp"
#include "solve.hpp"

namespace {

using onkel::BudgetCode;
using onkel::Condense;

constexpr double kNowhere = std::numeric_limits<double>::infinity();
constexpr int64_t kNearest = 16;  // neighbours that a term is projected on
constexpr double kJitter = 1e-6;  // of their kernel matrix' diagonal, in units of itself
constexpr int64_t kSmall = 4;     // one of this fraction of all, the smallest, is projected
constexpr int kSamples = 8;       // places on the way from one point to the other, tried at first
constexpr int kGolden = 6;        // steps of the golden section between two of them
constexpr int kNewton = 5;        // and of Newton from there

// One call in flight. Terms stand where they stood; those that have left are no longer `alive`.
template <class T>
struct Work {
  explicit Work(Condense<T>& task)
      : k(task),
        slots((task.count + kLanes - 1) / kLanes * kLanes),
        alive(slots),
        numbers(5 * slots + 2 * task.d),
        seen(task.budget == BudgetCode::kProject ? kNearest * task.d : 0),
        memory(2 * task.d) {
    size2 = numbers.data;  // of each term, |a|^2 k(x, x) over the outputs
    size = size2 + slots;
    diag = size + slots;
    near = diag + slots;  // what the leaver has with each: kernel values, or distances
    loss = near + slots;
    point = loss + slots;
    other = point + task.d;
    for (int64_t i = 0; i < task.count; ++i) {
      alive.data[i] = 1;
      diag[i] = evaluate_one(task.program, static_cast<double>(task.norms[i]), 0, 0);
      measure(i);
    }
  }
  double& coef(int64_t i, int64_t c) const {
    return k.coef[(i / kLanes * k.columns + c) * kLanes + i % kLanes];
  }
  T& value(int64_t i, int64_t j) const {
    return k.panels[(i / kLanes * k.d + j) * kLanes + i % kLanes];
  }
  void measure(int64_t i) {
    double sum = 0;
    for (int64_t c = 0; c < k.own; ++c) sum += coef(i, c) * coef(i, c);
    size2[i] = diag[i] > 0 ? sum * diag[i] : 0;
    size[i] = std::sqrt(size2[i]);
  }
  int64_t smallest() const {
    int64_t best = -1;
    for (int64_t i = 0; i < k.count; ++i)
      if (alive.data[i] && (best < 0 || size2[i] < size2[best])) best = i;
    return best;
  }

  Condense<T>& k;
  int64_t slots;
  Memory<uint8_t> alive;
  Memory<double> numbers, seen;
  Memory<T> memory;
  double *size2, *size, *diag, *near, *loss, *point, *other;
  Tile<T, 1> tile;
};

// A term as a query of those beside it.
template <class T>
inline Group<T, 1> query_of(Work<T>& w, int64_t i) {
  Condense<T>& k = w.k;
  Group<T, 1> g;
  g.q = w.memory.data;
  g.v = g.q + k.d;
  g.width = k.width_t;
  g.d = k.d;
  g.codes = k.codes;
  double off = 0;
  for (int64_t j = 0; j < k.d; ++j) {
    const double z = k.width[j] * (static_cast<double>(w.value(i, j)) - k.shift[j]);
    g.v[j] = g.q[j] = w.value(i, j);
    if (j < k.codes) continue;
    g.q[j] = static_cast<T>(z * k.width[j]);
    off -= z * k.width[j] * k.shift[j];
  }
  g.off[0] = static_cast<T>(off);
  g.norm[0] = k.norms[i];
  return g;
}

// Fills `near` with what a term has with all of them: kernel values, or (merging) the exponents.
template <class T>
inline void look_round(Work<T>& w, int64_t i) {
  Condense<T>& k = w.k;
  const Needs needs = needs_of(k.program);
  const Group<T, 1> g = query_of(w, i);
  const bool merging = k.budget == BudgetCode::kMerge;
  for (int64_t p = 0; p * kLanes < w.slots; ++p) {
    fill_statistics<T, 1>(w.tile, g, k.panels + p * k.d * kLanes, k.norms + p * kLanes, needs);
    if (!merging) evaluate<T, 1>(w.tile, k.program);
    const T* from = merging ? w.tile.dist2 : w.tile.slot[0];
    const double gain = merging ? k.program.nodes[0].a : 1.0;
    for (int l = 0; l < kLanes; ++l) w.near[p * kLanes + l] = gain * static_cast<double>(from[l]);
  }
}

// A term as the kernel sees it, in double precision; codes as they are.
template <class T>
inline void see(const Work<T>& w, int64_t i, double* z) {
  const Condense<T>& k = w.k;
  for (int64_t j = 0; j < k.d; ++j) {
    const double v = static_cast<double>(w.value(i, j));
    z[j] = j < k.codes ? v : k.width[j] * (v - k.shift[j]);
  }
}

// k of two such points.
template <class T>
inline double between(const Condense<T>& k, const Needs& needs, const double* a, const double* b) {
  double agree = 0, differ = 0;
  for (int64_t j = 0; j < k.codes; ++j)
    (a[j] == b[j] ? agree : differ) += static_cast<double>(k.width_t[j]);
  double sum = agree / 2, dist2 = differ, dist1 = differ;
  const int64_t n = k.d - k.codes;
  const double *x = a + k.codes, *y = b + k.codes;
  if (needs.dot) sum += dot(x, y, n);
  for (int64_t j = 0; needs.dist2 && j < n; ++j) dist2 += (x[j] - y[j]) * (x[j] - y[j]);
  for (int64_t j = 0; needs.dist1 && j < n; ++j) dist1 += std::fabs(x[j] - y[j]);
  return evaluate_one(k.program, sum, dist2, dist1);
}

template <class T>
inline void lose(Work<T>& w, int64_t c, double square) {
  w.k.lost[c] += std::sqrt(square > 0 ? square : 0);
}

template <class T>
inline void drop(Work<T>& w, int64_t i) {
  for (int64_t c = 0; c < w.k.columns; ++c)
    lose(w, c, w.coef(i, c) * w.coef(i, c) * (w.diag[i] > 0 ? w.diag[i] : 0));
}

// -- merging

template <class T>
inline bool same_codes(const Work<T>& w, int64_t i, int64_t j) {
  for (int64_t f = 0; f < w.k.codes; ++f)
    if (w.value(i, f) != w.value(j, f)) return false;
  return true;
}

// Fills `loss` with what merging with each would cost about: at the mean of both points weighed by
// their sizes, or where the partner stands, whichever is less.
template <class T>
inline void weigh_partners(Work<T>& w, int64_t i) {
  constexpr int W = Simd<double>::width;
  const VecD own2 = broadcast<VecD>(w.size2[i]), own = broadcast<VecD>(w.size[i]);
  const VecD tiny = broadcast<VecD>(1e-300), none = VecD{};
  for (int64_t p = 0; p < w.slots; p += W) {
    VecD product = VecD{};
    const double* at = w.k.coef + p / kLanes * w.k.columns * kLanes + p % kLanes;
    for (int64_t c = 0; c < w.k.own; ++c)
      product = product + load<VecD>(at + c * kLanes) * w.coef(i, c);
    const VecD s2 = load<VecD>(w.size2 + p), apart = load<VecD>(w.near + p);
    const VecD share = own / larger(own + load<VecD>(w.size + p), tiny), rest = 1.0 - share;
    const VecD k = vexp(-apart), first = vexp(-apart * rest * rest),
               second = vexp(-apart * share * share);
    const VecD mean = own2 * (1.0 - first * first) + s2 * (1.0 - second * second) +
                      2.0 * product * (k - first * second);
    const VecD there = own2 * (1.0 - k * k);
    store(w.loss + p, larger(mean < there ? mean : there, none));
    if (!w.k.codes) continue;
    for (int l = 0; l < W && p + l < w.k.count; ++l)
      if (!same_codes(w, i, p + l)) w.loss[p + l] = there[l];
  }
}

// What a merged term keeps of both, |own first + other second|^2, on the way from the partner (0)
// to the leaver (1).
struct Way {
  double apart, own2, other2, product;
  double gain(double h) const {
    const double first = std::exp(-apart * (1 - h) * (1 - h)), second = std::exp(-apart * h * h);
    return own2 * first * first + other2 * second * second + 2 * product * first * second;
  }
  // Where Newton's step towards the top leads; h itself where the way bends upwards.
  double step(double h) const {
    const double first = std::exp(-apart * (1 - h) * (1 - h)), second = std::exp(-apart * h * h);
    const double u = 2 * apart * (1 - h), v = -2 * apart * h;
    const double a = own2 * first * first, b = other2 * second * second,
                 c = product * first * second;
    const double slope = a * u + b * v + c * (u + v);
    const double bend =
        2 * a * (u * u - apart) + 2 * b * (v * v - apart) + c * ((u + v) * (u + v) - 4 * apart);
    return bend < 0 ? std::min(std::max(h - slope / bend, 0.0), 1.0) : h;
  }
};

// Where that is most: some places are tried, since there may be two tops, then the golden section
// and Newton's steps find the top that is near the best of them.
inline double best_way(const Way& way) {
  int best = 0;
  double most = way.gain(0);
  for (int s = 1; s <= kSamples; ++s) {
    const double found = way.gain(static_cast<double>(s) / kSamples);
    if (found > most) most = found, best = s;
  }
  const double ratio = 0.6180339887498949;
  double low = std::max(best - 1, 0) / static_cast<double>(kSamples);
  double high = std::min(best + 1, kSamples) / static_cast<double>(kSamples);
  for (int s = 0; s < kGolden; ++s) {
    const double left = high - ratio * (high - low), right = low + ratio * (high - low);
    if (way.gain(left) > way.gain(right))
      high = right;
    else
      low = left;
  }
  double h = (low + high) / 2;
  for (int s = 0; s < kNewton; ++s) h = way.step(h);
  return way.gain(h) > most ? h : static_cast<double>(best) / kSamples;
}

// The squared distance from a point, in double precision, to what was stored of another.
template <class T>
inline double gap_to(const Work<T>& w, const double* point, int64_t o) {
  double sum = 0;
  for (int64_t j = w.k.codes; j < w.k.d; ++j) {
    const double gap = w.k.width[j] * (point[j] - static_cast<double>(w.value(o, j)));
    sum += gap * gap;
  }
  return sum;
}

// Puts term `o` where both lose least, with what both give there; `i` may then be forgotten.
template <class T>
inline void merge_into(Work<T>& w, int64_t i, int64_t o) {
  Condense<T>& k = w.k;
  const double gamma = k.program.nodes[0].a;
  double product = 0;
  for (int64_t c = 0; c < k.own; ++c) product += w.coef(i, c) * w.coef(o, c);
  for (int64_t j = 0; j < k.d; ++j) {
    w.point[j] = static_cast<double>(w.value(i, j));
    w.other[j] = static_cast<double>(w.value(o, j));
  }
  double codes = 0;  // what the two are apart by their codes, which nothing changes
  for (int64_t j = 0; j < k.codes; ++j)
    if (w.point[j] != w.other[j]) codes += gamma * static_cast<double>(k.width_t[j]);
  const double apart = gamma * gap_to(w, w.point, o) + codes;
  const bool joint = same_codes(w, i, o);
  const double h = joint ? best_way({apart, w.size2[i], w.size2[o], product}) : 0.0;
  double square = k.alike;
  for (int64_t j = k.codes; j < k.d; ++j) {
    w.value(o, j) = static_cast<T>(w.other[j] + h * (w.point[j] - w.other[j]));
    const double z = k.width[j] * (static_cast<double>(w.value(o, j)) - k.shift[j]);
    square += z * z;
  }
  if (h != 0) k.norms[o] = static_cast<T>(square);
  const double to_i = gamma * gap_to(w, w.point, o) + codes;
  const double to_o = gamma * gap_to(w, w.other, o);
  const double first = std::exp(-to_i), second = std::exp(-to_o);
  const double beside = first * second * std::expm1(to_i + to_o - apart);
  for (int64_t c = 0; c < k.columns; ++c) {
    const double a = w.coef(i, c), b = w.coef(o, c);
    lose(w, c, -a * a * std::expm1(-2 * to_i) - b * b * std::expm1(-2 * to_o) + 2 * a * b * beside);
    w.coef(o, c) = a * first + b * second;
  }
  w.measure(o);
}

template <class T>
inline void merge(Work<T>& w, int64_t i) {
  look_round(w, i);
  weigh_partners(w, i);
  int64_t best = -1;
  for (int64_t j = 0; j < w.k.count; ++j)
    if (w.alive.data[j] && (best < 0 || w.loss[j] < w.loss[best])) best = j;
  if (best < 0) return drop(w, i);
  merge_into(w, i, best);
}

// -- projecting

// The n terms on which a single one of them would be replaced best; returns how many there are.
template <class T>
inline int64_t nearest(Work<T>& w, int64_t* found) {
  int64_t n = 0;
  const auto before = [&](int64_t i, int64_t j) {
    return w.loss[i] != w.loss[j] ? w.loss[i] > w.loss[j] : i < j;
  };
  for (int64_t j = 0; j < w.k.count; ++j) {
    if (!w.alive.data[j] || !(w.diag[j] > 0)) continue;
    w.loss[j] = w.near[j] * w.near[j] / w.diag[j];
    if (!std::isfinite(w.loss[j])) continue;
    int64_t at = n;
    if (n == kNearest && !before(j, found[n - 1])) continue;
    if (n < kNearest)
      ++n;
    else
      --at;
    for (; at > 0 && before(j, found[at - 1]); --at) found[at] = found[at - 1];
    found[at] = j;
  }
  std::sort(found, found + n);
  return n;
}

template <class T>
inline void project(Work<T>& w, int64_t i) {
  int64_t found[kNearest];
  double gram[kNearest * kNearest], b[kNearest], x[kNearest];
  double firm[kNearest * kNearest], room[kNearest * (kNearest + 2)];  // firm: with the jitter
  look_round(w, i);
  const Needs needs = needs_of(w.k.program);
  const int64_t n = nearest(w, found), d = w.k.d;
  see(w, i, w.point);
  for (int64_t r = 0; r < n; ++r) {
    double* z = w.seen.data + r * d;
    see(w, found[r], z);
    x[r] = b[r] = between(w.k, needs, w.point, z);
    for (int64_t s = 0; s <= r; ++s)
      firm[r * n + s] = gram[r * n + s] = gram[s * n + r] =
          between(w.k, needs, z, w.seen.data + s * d);
    firm[r * n + r] *= 1 + kJitter;
  }
  double left = between(w.k, needs, w.point, w.point);
  bool fine = n > 0 && solve(firm, static_cast<size_t>(n), x, room);
  for (int64_t r = 0; fine && r < n; ++r) {
    fine = std::isfinite(x[r]);
    for (int64_t s = 0; s < n; ++s) left += x[r] * gram[r * n + s] * x[s];
    left -= 2 * x[r] * b[r];
  }
  if (!fine || !std::isfinite(left)) return drop(w, i);
  for (int64_t c = 0; c < w.k.columns; ++c) {
    lose(w, c, w.coef(i, c) * w.coef(i, c) * left);
    for (int64_t r = 0; r < n; ++r) w.coef(found[r], c) += x[r] * w.coef(i, c);
  }
  for (int64_t r = 0; r < n; ++r) w.measure(found[r]);
}

// -- all of it

template <class T>
inline void leave(Work<T>& w, int64_t i) {
  w.alive.data[i] = 0;
  switch (w.k.budget) {
    case BudgetCode::kSmallest:
      return drop(w, i);
    case BudgetCode::kMerge:
      return merge(w, i);
    case BudgetCode::kProject:
      return project(w, i);
    case BudgetCode::kOldest:
      break;
  }
  onkel::refuse("budget", static_cast<int>(w.k.budget));
}

// Those that stay close ranks, in their order; what lies behind them is 0.
template <class T>
inline void close_ranks(Work<T>& w) {
  Condense<T>& k = w.k;
  int64_t to = 0;
  for (int64_t i = 0; i < k.count; ++i) {
    if (!w.alive.data[i]) continue;
    if (to != i) {
      for (int64_t j = 0; j < k.d; ++j) w.value(to, j) = w.value(i, j);
      for (int64_t c = 0; c < k.columns; ++c) w.coef(to, c) = w.coef(i, c);
      k.norms[to] = k.norms[i];
      k.births[to] = k.births[i];
    }
    ++to;
  }
  for (int64_t i = to; i < k.count; ++i) {
    for (int64_t j = 0; j < k.d; ++j) w.value(i, j) = T(0);
    for (int64_t c = 0; c < k.columns; ++c) w.coef(i, c) = 0;
    k.norms[i] = T(0);
    k.births[i] = 0;
  }
  k.count = to;
}

// Those of which one is projected next: the smallest at first, in their order, each with the term
// that alone would replace it best and the share of it that this one would keep.
template <class T>
struct Small {
  explicit Small(Work<T>& work)
      : w(work),
        going(std::max<int64_t>(w.k.count - w.k.left, 0)),
        count(std::min(std::max(w.k.count / kSmall, going), w.k.count)),
        places(w.k.count + count),
        kept(count) {
    who = places.data;
    by = who + w.k.count;
    for (int64_t i = 0; i < w.k.count; ++i) who[i] = i;
    std::stable_sort(who, who + w.k.count,
                     [this](int64_t i, int64_t j) { return w.size2[i] < w.size2[j]; });
    std::sort(who, who + count);
    for (int64_t n = 0; n < count; ++n) look(n);
  }
  void look(int64_t n) {
    const int64_t i = who[n];
    look_round(w, i);
    by[n] = -1;
    double most = 0;
    for (int64_t j = 0; w.diag[i] > 0 && j < w.k.count; ++j) {
      const double gain = w.near[j] * w.near[j] / w.diag[j];
      if (!w.alive.data[j] || j == i || !(w.diag[j] > 0) || !std::isfinite(gain)) continue;
      if (by[n] < 0 || gain > most) most = gain, by[n] = j;
    }
    kept.data[n] = by[n] < 0 ? 0 : most / w.diag[i];
  }
  int64_t next() const {
    int64_t best = -1;
    double least = kNowhere;
    for (int64_t n = 0; n < count; ++n) {
      const double over = w.size2[who[n]] * std::max(1 - kept.data[n], kJitter);
      if (w.alive.data[who[n]] && (best < 0 || over < least)) least = over, best = who[n];
    }
    return best;
  }
  void left(int64_t i) {
    for (int64_t n = 0; n < count; ++n)
      if (by[n] == i && w.alive.data[who[n]]) look(n);
  }

  Work<T>& w;
  int64_t going, count;
  Memory<int64_t> places;
  Memory<double> kept;
  int64_t *who, *by;
};

template <class T>
void condense(Condense<T>& k) {
  Work<T> w(k);
  if (k.budget == BudgetCode::kProject && k.count > k.left) {
    Small<T> small(w);
    for (int64_t n = small.going; n > 0; --n) {
      const int64_t i = small.next();
      leave(w, i);
      small.left(i);
    }
  } else {
    for (int64_t n = k.count; n > k.left; --n) leave(w, w.smallest());
  }
  close_ranks(w);
}

}  // namespace
