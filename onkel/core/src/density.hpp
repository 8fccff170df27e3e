// The detector: densities of rows, of their steps and of their late means, each read as a tail
// probability, joined, and judged against a level that remembers its debt. One row after another;
// the readable form is onkel/core/numpy_density.py.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "api.hpp"
#include "simd.hpp"

namespace {

using onkel::Density;
using onkel::DensityPlan;

constexpr int kWF = Simd<float>::width;
constexpr double kLargest = 1e75;    // most that a number counts: its fourth power is finite
constexpr double kNear = 1e-25;      // the least distance that a width is made of
constexpr double kReach = 1e4;       // most that a coordinate counts
constexpr double kTied = 1 + 1e-5;   // sums this close are the same
constexpr double kTailShare = 0.05;  // of the terms: those beyond which the tail is fitted
constexpr double kLastShare = 0.02;  // the same of the joined scores
constexpr int64_t kTailLeast = 10, kLastLeast = 20;  // scores in a tail, at least
constexpr double kKnown = 200;       // joined scores that make a distribution of their own
constexpr double kGross = 2.3;       // below the level by a factor of ten
constexpr double kLoud = 40;         // a view's score beyond this is tempered
constexpr double kTurnCost = 3;      // what whitened rows must be ahead by where order is none
constexpr double kReachCost = 2.5;   // what a largest coordinate must be ahead by
constexpr double kLog2 = 0.69314718055994530942;

// A number in [0, 1) from a counter (splitmix64).
inline double uniform(uint64_t seed, uint64_t counter) {
  uint64_t z = seed * 0xD1B54A32D192ED03ull + (counter + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

// How many of n scores lie beyond the edge of the tail: a share of them, but at least so many (a
// quarter of all, if that is less).
inline int64_t in_tail(int64_t n, double share, int64_t least) {
  return std::max(std::min(least, n / 4), static_cast<int64_t>(share * static_cast<double>(n)));
}

// -- one way of looking at rows
// --------------------------------------------------------------------

// The terms as one view sees them, and each term's kernel sums over the others.
struct View {
  int64_t d, places, count;
  float* z;              // [d][places]
  float* sums;           // [widths][places]
  float* reach;          // [places] the largest coordinate
  const uint8_t* marks;  // [places] whether a term once raised an alert, or null
  int widths;            // 2: four times narrower, too
  bool round;            // distances as the crow flies, which no turning changes; else by the axes
  double* width;
  double *edge, *slope;              // of the tail, one for each width
  double *reach_edge, *reach_slope;  // of the largest coordinates
};

inline float reach_of(const float* q, int64_t d) {
  float most = 0;
  for (int64_t j = 0; j < d; ++j) most = std::max(most, std::fabs(q[j]));
  return most;
}

inline VecF root(VecF x) {
  for (int k = 0; k < kWF; ++k) x[k] = std::sqrt(x[k]);
  return x;
}

// The distances of a row to all terms; returns the least.
template <bool kRound>
inline float distances_as(const View& v, const float* q, float* out) {
  constexpr int kAtOnce = 4;  // sums that do not wait for each other
  const int64_t whole = (v.count + kWF - 1) / kWF * kWF;
  const auto gap = [](VecF a, VecF b) {
    const VecF x = a - b;
    return kRound ? x * x : magnitude(x);
  };
  VecF least = broadcast<VecF>(3e38f);
  int64_t i = 0;
  for (; i + kAtOnce * kWF <= whole; i += kAtOnce * kWF) {
    VecF sum[kAtOnce] = {};
    for (int64_t j = 0; j < v.d; ++j) {
      const float* z = v.z + j * v.places + i;
      const VecF own = broadcast<VecF>(q[j]);
      for (int k = 0; k < kAtOnce; ++k) sum[k] = sum[k] + gap(load<VecF>(z + k * kWF), own);
    }
    for (int k = 0; k < kAtOnce; ++k) {
      if (kRound) sum[k] = root(sum[k]);
      store(out + i + k * kWF, sum[k]);
      least = sum[k] < least ? sum[k] : least;
    }
  }
  for (; i < whole; i += kWF) {
    VecF sum = VecF{};
    for (int64_t j = 0; j < v.d; ++j)
      sum = sum + gap(load<VecF>(v.z + j * v.places + i), broadcast<VecF>(q[j]));
    if (kRound) sum = root(sum);
    store(out + i, sum);
    least = sum < least ? sum : least;
  }
  float found = least[0];
  for (int k = 1; k < kWF; ++k) found = std::min(found, least[k]);
  return found;
}

inline float distances(const View& v, const float* q, float* out) {
  return v.round ? distances_as<true>(v, q, out) : distances_as<false>(v, q, out);
}

inline VecF raised(VecF e, int w) {
  if (w == 0) return e;
  const VecF e2 = e * e;
  return e2 * e2;
}

// What a row meets in one view: exp(-c (distance - least)) for all terms, and exp(-c least).
struct Met {
  float* values;
  double least;  // c times the least distance
  double factor(int w) const { return std::exp(-least * (w ? 4 : 1)); }
};

inline Met meet(const View& v, const float* q, float* buffer) {
  const float least = distances(v, q, buffer);
  const float c = static_cast<float>(*v.width);
  const int64_t whole = (v.count + kWF - 1) / kWF * kWF;
  for (int64_t i = 0; i < whole; i += kWF)
    store(buffer + i, vexp((load<VecF>(buffer + i) - least) * -c));
  return {buffer, static_cast<double>(c) * least};
}

inline double total(const View& v, const Met& met, int w) {
  VecF sum = VecF{};
  const int64_t whole = (v.count + kWF - 1) / kWF * kWF;
  for (int64_t i = 0; i < whole; i += kWF) sum = sum + raised(load<VecF>(met.values + i), w);
  return sum_lanes<float>(sum);
}

// How many terms lie in a density at most as high as the row's, each with the row among its own.
inline int64_t at_most(const View& v, const Met& met, int w, double sum) {
  const float factor = static_cast<float>(met.factor(w));
  const float own = static_cast<float>(sum * factor * kTied);
  const float* sums = v.sums + w * v.places;
  IntF hits = IntF{};
  const int64_t whole = (v.count + kWF - 1) / kWF * kWF;
  for (int64_t i = 0; i < whole; i += kWF) {
    const VecF theirs = load<VecF>(sums + i) + raised(load<VecF>(met.values + i), w) * factor;
    hits = hits - (theirs <= broadcast<VecF>(own));
  }
  int64_t found = 0;
  for (int k = 0; k < kWF; ++k) found += hits[k];
  return found;
}

// -log of the tail probability of a row's density, among the terms' own.
inline double tail_score(const View& v, const Met& met, int w) {
  const double n = static_cast<double>(v.count), sum = total(v, met, w);
  const double s = met.least * (w ? 4 : 1) - std::log(sum / n);
  if (s > v.edge[w]) {
    const double k = static_cast<double>(in_tail(v.count, kTailShare, kTailLeast));
    return std::log(n / k) + (s - v.edge[w]) / v.slope[w];
  }
  return -std::log((1.0 + static_cast<double>(at_most(v, met, w, sum))) / (n + 1.0));
}

// The same of a row's largest coordinate.
inline double reach_score(const View& v, float own) {
  const double n = static_cast<double>(v.count);
  if (own > *v.reach_edge) {
    const double k = static_cast<double>(in_tail(v.count, kTailShare, kTailLeast));
    return std::log(n / k) + (own - *v.reach_edge) / *v.reach_slope;
  }
  int64_t farther = 0;
  for (int64_t i = 0; i < v.count; ++i) farther += v.reach[i] >= own;
  return -std::log((1.0 + static_cast<double>(farther)) / (n + 1.0));
}

// Where the tail begins and how fast it falls, from the terms' own sums.
// Terms that once raised an alert do not count, unless most have. None is below 0; a NaN, which a
// damaged state may hold, would lead a selection out of its array.
inline int64_t usual(const View& v, const float* from, float* buffer) {
  const auto sound = [&](int64_t i) { return from[i] >= 0 ? from[i] : 0; };
  int64_t n = 0;
  for (int64_t i = 0; v.marks && i < v.count; ++i)
    if (!v.marks[i]) buffer[n++] = sound(i);
  if (v.marks && 2 * n > v.count) return n;
  for (int64_t i = 0; i < v.count; ++i) buffer[i] = sound(i);
  return v.count;
}

inline void fit_tails(const View& v, float* buffer) {
  int64_t n = 0, k = 0;
  for (int w = 0; w < v.widths; ++w) {
    n = usual(v, v.sums + w * v.places, buffer);
    k = in_tail(n, kTailShare, kTailLeast);
    const auto score = [&](int64_t at) {
      std::nth_element(buffer, buffer + at, buffer + n);
      return -std::log(std::max(static_cast<double>(buffer[at]), 1e-37) /
                       static_cast<double>(v.count - 1));
    };
    v.edge[w] = score(k);
    v.slope[w] = std::max((score(k / 2) - v.edge[w]) / kLog2, 0.3);
  }
  usual(v, v.reach, buffer);
  const auto largest_but = [&](int64_t at) {
    std::nth_element(buffer, buffer + at, buffer + n, std::greater<float>());
    return static_cast<double>(buffer[at]);
  };
  *v.reach_edge = largest_but(k);
  *v.reach_slope = std::max((largest_but(k / 2) - *v.reach_edge) / kLog2, 0.1);
}

// A term's kernel sum over the others, itself (or whose place it takes) left out before anything is
// added: of a sum that holds a 1, float32 keeps nothing that is smaller than 1e-7.
inline float sum_but(const View& v, const Met& met, int64_t but, int w) {
  if (but < v.count) met.values[but] = 0;
  return static_cast<float>(total(v, met, w) * met.factor(w));
}

// Put a row in a place, new (place == count) or another term's; `met` is what it met there.
inline void put(View& v, int64_t place, const float* q, float reach, const Met& met,
                float* buffer) {
  const int64_t whole = (v.count + kWF - 1) / kWF * kWF;
  if (place < v.count) {
    float* old = buffer + v.places;
    for (int64_t j = 0; j < v.d; ++j) old[j] = v.z[j * v.places + place];
    const Met gone = meet(v, old, buffer);
    for (int w = 0; w < v.widths; ++w) {
      const float factor = static_cast<float>(gone.factor(w));
      float* sums = v.sums + w * v.places;
      for (int64_t i = 0; i < whole; i += kWF) {
        const VecF left = load<VecF>(sums + i) - raised(load<VecF>(gone.values + i), w) * factor;
        store(sums + i, larger(left, VecF{}));
      }
    }
  }
  for (int w = 0; w < v.widths; ++w) {
    const float factor = static_cast<float>(met.factor(w));
    float* sums = v.sums + w * v.places;
    for (int64_t i = 0; i < whole; i += kWF)
      store(sums + i, load<VecF>(sums + i) + raised(load<VecF>(met.values + i), w) * factor);
    sums[place] = sum_but(v, met, place, w);
  }
  for (int64_t j = 0; j < v.d; ++j) v.z[j * v.places + place] = q[j];
  v.reach[place] = reach;
  if (place == v.count) ++v.count;
}

// The width at which half of the terms see so many others.
inline double tuned_width(const View& v, float* buffer) {
  const int64_t step = std::max<int64_t>(1, v.count / 40);
  std::vector<std::vector<float>> seen;
  std::vector<float> positive, q(static_cast<size_t>(v.d));
  for (int64_t i = 0; i < v.count; i += step) {
    for (int64_t j = 0; j < v.d; ++j) q[static_cast<size_t>(j)] = v.z[j * v.places + i];
    distances(v, q.data(), buffer);
    buffer[i] = 3e38f;  // itself is no other
    seen.emplace_back(buffer, buffer + v.count);
    for (int64_t l = 0; l < v.count; ++l)
      if (l != i && buffer[l] > 0) positive.push_back(buffer[l]);
  }
  if (positive.empty()) return 4.0 / static_cast<double>(v.d);
  auto mid = positive.begin() + static_cast<int64_t>(positive.size() / 2);
  std::nth_element(positive.begin(), mid, positive.end());
  const double median = std::max<double>(*mid, kNear), n = static_cast<double>(v.count);
  const double wanted = std::min(std::max(5.0, 0.02 * n), n / 4);
  double low = std::log(1e-3 / median), high = std::log(1e4 / median);
  std::vector<double> sums(seen.size());
  for (int round = 0; round < 14; ++round) {
    const double c = (low + high) / 2;
    const float rate = static_cast<float>(-std::exp(c));
    for (size_t k = 0; k < seen.size(); ++k) {
      VecF sum = VecF{};
      size_t l = 0;
      for (; l + kWF <= seen[k].size(); l += kWF) sum = sum + vexp(load<VecF>(&seen[k][l]) * rate);
      double rest = sum_lanes<float>(sum);
      for (; l < seen[k].size(); ++l) rest += std::exp(static_cast<double>(seen[k][l] * rate));
      sums[k] = rest;
    }
    auto half = sums.begin() + static_cast<int64_t>(sums.size() / 2);
    std::nth_element(sums.begin(), half, sums.end());
    (*half > wanted ? low : high) = c;
  }
  return std::exp((low + high) / 2);
}

// Everything of a view anew, from its coordinates.
inline void settle(View& v, float* buffer) {
  if (v.count < 2) return;
  *v.width = tuned_width(v, buffer);
  std::vector<float> q(static_cast<size_t>(v.d));
  for (int64_t i = 0; i < v.count; ++i) {
    for (int64_t j = 0; j < v.d; ++j) q[static_cast<size_t>(j)] = v.z[j * v.places + i];
    const Met met = meet(v, q.data(), buffer);
    for (int w = 0; w < v.widths; ++w) v.sums[w * v.places + i] = sum_but(v, met, i, w);
  }
  fit_tails(v, buffer);
}

// -- the machine
// -----------------------------------------------------------------------------------

// Rows, their steps and their late means have moments each; the metric is that of the last refresh.
enum Kind { kRows = 0, kSteps = 1, kLate = 2 };

struct Machine {
  const DensityPlan& plan;
  Density& s;
  int64_t d;
  bool full;  // whether whole covariances are kept
  View plain, white, steps, late;
  std::vector<float> buffers, query;
  std::vector<double> centered, step, mean;
  Met met[3];
  bool found[3] = {};
  float row_reach = 0, step_reach = 0;

  Machine(const DensityPlan& plan, Density& s)
      : plan(plan),
        s(s),
        d(s.d),
        full(s.ranks > 1 || s.d == 1),
        plain(view(0, 0, 1, onkel::kCountSize)),
        white(view(1, 1, 2, onkel::kCountSize)),
        steps(view(2, 3, 1, onkel::kCountSize)),
        late{s.d,
             s.late_places,
             s.whole[onkel::kCountLateSize],
             s.late_z,
             s.late_sums,
             s.late_sums + s.late_places,
             nullptr,
             1,
             true,
             s.real + onkel::kLevelWidth + 3,
             s.real + onkel::kLevelEdge + 4,
             s.real + onkel::kLevelSlope + 4,
             s.real + onkel::kLevelEdge + 8,
             s.real + onkel::kLevelSlope + 8},
        buffers(static_cast<size_t>(5 * (std::max(s.places, s.late_places) + kWF + s.d))),
        query(static_cast<size_t>(5 * s.d)),
        centered(static_cast<size_t>(s.d)),
        step(static_cast<size_t>(s.d)),
        mean(static_cast<size_t>(s.d)) {}

  double* real(int at) { return s.real + at; }
  int64_t& whole(int at) { return s.whole[at]; }
  float* buffer(int k) {
    return buffers.data() + k * (std::max(s.places, s.late_places) + kWF + s.d);
  }
  float* q(int k) { return query.data() + k * d; }
  View view(int k, int first, int widths, int count) {
    return {s.d,
            s.places,
            s.whole[count],
            s.z + k * s.d * s.places,
            s.sums + first * s.places,
            s.sums + (4 + k) * s.places,
            s.marks,
            widths,
            k > 0,
            s.real + onkel::kLevelWidth + k,
            s.real + onkel::kLevelEdge + first,
            s.real + onkel::kLevelSlope + first,
            s.real + onkel::kLevelEdge + 5 + k,
            s.real + onkel::kLevelSlope + 5 + k};
  }

  // -- moments and metric

  double* mean_of(int kind) { return s.mean + kind * d; }
  double* cov_of(int kind) { return s.cov + kind * s.ranks * d; }
  double variance(int kind, int64_t j) { return cov_of(kind)[full ? j * d + j : j]; }

  // One row into running moments; `clipped` bounds what it may move them by.
  void enter(int kind, int mass, const double* x, double weight, bool clipped) {
    double& seen = *real(mass);
    seen = seen * (1 - weight / plan.memory) + weight;
    const double a = weight / seen;
    double *m = mean_of(kind), *c = cov_of(kind);
    for (int64_t j = 0; j < d; ++j) {
      double e = x[j] - m[j];
      const double most = 3 * std::sqrt(variance(kind, j));
      if (clipped && most > 0) e = std::max(-most, std::min(e, most));
      centered[static_cast<size_t>(j)] = e;
      m[j] += a * e;
    }
    for (int64_t i = 0; i < (full ? d : 1); ++i) {
      double* row = c + i * d;
      for (int64_t j = 0; j < d; ++j) {
        const double other =
            full ? centered[static_cast<size_t>(i)] : centered[static_cast<size_t>(j)];
        row[j] = (1 - a) * (row[j] + a * other * centered[static_cast<size_t>(j)]);
      }
    }
  }

  // Units and whitening as the moments have them now: inverse of the Cholesky factor of the
  // correlations, shrunken.
  void take_metric(int kind, double rows) {
    double *center = s.center + kind * d, *scale = s.scale + kind * d;
    for (int64_t j = 0; j < d; ++j) {
      center[j] = mean_of(kind)[j];
      scale[j] = std::max({std::sqrt(variance(kind, j)), 1e-8 * s.size[j], 1e-300});
    }
    if (!full) return;
    const double dd = static_cast<double>(d);
    const double shrink = std::max({0.05, dd / (dd + 500), dd / (dd + rows)});
    double* t = s.turn + kind * d * d;
    std::vector<double> l(static_cast<size_t>(d * d));
    const auto at = [&](int64_t i, int64_t j) -> double& {
      return l[static_cast<size_t>(i * d + j)];
    };
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double sum =
            i == j ? 1 + 1e-9 : (1 - shrink) * (cov_of(kind)[i * d + j] / scale[i] / scale[j]);
        for (int64_t k = 0; k < j; ++k) sum -= at(i, k) * at(j, k);
        at(i, j) = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / at(j, j);
      }
    std::fill_n(t, d * d, 0.0);
    for (int64_t j = 0; j < d; ++j) {
      t[j * d + j] = 1 / at(j, j);
      for (int64_t i = j + 1; i < d; ++i) {
        double sum = 0;
        for (int64_t k = j; k < i; ++k) sum -= at(i, k) * t[k * d + j];
        t[i * d + j] = sum / at(i, i);
      }
    }
  }

  static float held(double z) { return static_cast<float>(std::max(-kReach, std::min(z, kReach))); }

  // A row in the units of its kind, and turned so that its correlations vanish.
  void seen_as(int kind, const double* x, float* straight, float* turned) {
    const double *center = s.center + kind * d, *scale = s.scale + kind * d;
    double* z = centered.data();
    for (int64_t j = 0; j < d; ++j) {
      z[j] = std::max(-kReach, std::min((x[j] - center[j]) / scale[j], kReach));
      if (straight) straight[j] = static_cast<float>(z[j]);
    }
    if (!turned) return;
    const double* t = s.turn + kind * d * d;
    for (int64_t i = 0; i < d; ++i)
      turned[i] = full ? held(dot(t + i * d, z, i + 1)) : static_cast<float>(z[i]);
  }

  void place(View& v, int64_t i, const float* q, float reach) {
    v.reach[i] = reach;
    for (int64_t j = 0; j < d; ++j) v.z[j * v.places + i] = q[j];
  }

  void refresh() {
    const int64_t t = whole(onkel::kCountT);
    if (t < plan.young || t < whole(onkel::kCountRefresh)) return;
    whole(onkel::kCountRefresh) =
        t + std::max<int64_t>(5, std::min(t / 8, static_cast<int64_t>(plan.memory / 4)));
    take_metric(kRows, static_cast<double>(t));
    take_metric(kSteps, static_cast<double>(t));
    take_metric(kLate, static_cast<double>(t));
    for (int64_t i = 0; i < plain.count; ++i) {
      seen_as(kRows, s.raw + i * d, q(0), q(1));
      place(plain, i, q(0), reach_of(q(0), d));
      place(white, i, q(1), reach_of(q(0), d));
      seen_as(kSteps, s.raw + (s.places + i) * d, q(4), q(2));
      place(steps, i, q(2), reach_of(q(4), d));
    }
    for (int64_t i = 0; i < late.count; ++i) {
      seen_as(kLate, s.late_raw + i * d, nullptr, q(3));
      place(late, i, q(3), 0);
    }
    for (View* v : {&plain, &white, &steps, &late}) settle(*v, buffer(4));
    whole(onkel::kCountFresh) = whole(onkel::kCountLateFresh) = 0;
  }

  // -- judging

  // How far the next row is tied to the last one: 0 where order does not matter, 1 where it does.
  double tie() {
    const double rows = std::min(static_cast<double>(whole(onkel::kCountCalm)), plan.memory);
    if (rows < 2) return 0;
    const double noise = (3 + std::sqrt(2 * std::log(static_cast<double>(d)))) / std::sqrt(rows);
    const double *v = s.calm + d, *w = v + d, *fourth = w + d;
    double most = 0;
    for (int64_t j = 0; j < d; ++j) {
      if (!(std::sqrt(v[j]) > 1e-8 * s.size[j])) continue;
      const double heavy = std::sqrt(std::max(fourth[j] / (v[j] * v[j]) / 3, 1.0));
      most = std::max(most, 1 - w[j] / (2 * v[j]) - noise * heavy);
    }
    return std::max(0.0, std::min((most - 0.1) / 0.2, 1.0));
  }

  // Rows that follow one another without an alert: their mean, variance, step and fourth moment.
  void take_calm(const double* x) {
    const double n = static_cast<double>(++whole(onkel::kCountCalm));
    const double a = 1 / std::min(n, plan.memory);
    double *m = s.calm, *v = m + d, *w = v + d, *fourth = w + d;
    for (int64_t j = 0; j < d; ++j) {
      const double e = x[j] - m[j], e2 = std::min(e * e, 1e150), r = step[static_cast<size_t>(j)];
      m[j] += a * e;
      v[j] = (1 - a) * (v[j] + a * e2);
      w[j] += a * (r * r - w[j]);
      fourth[j] = (1 - a) * (fourth[j] + a * e2 * e2);
    }
  }

  // -log p of a joined score among those remembered.
  double rank_score(double g, double tied) {
    const int64_t n = whole(onkel::kCountHistory);
    const double guess = g / (1 + 1.5 * tied);  // what it is while little is known
    if (n < plan.young) return guess;
    const double known = std::min(1.0, static_cast<double>(n) / kKnown);
    return known * among(g, n) + (1 - known) * guess;
  }

  double among(double g, int64_t n) {
    const int64_t k = in_tail(n, kLastShare, kLastLeast);
    const double edge = s.ranked[n - k - 1];
    if (g > edge) {
      const double slope = std::max((s.ranked[n - k / 2 - 1] - edge) / kLog2, 0.5);
      return std::log(static_cast<double>(n) / static_cast<double>(k)) + (g - edge) / slope;
    }
    const int64_t below = std::lower_bound(s.ranked, s.ranked + n, g) - s.ranked;
    return -std::log(static_cast<double>(n - below + 1) / static_cast<double>(n + 1));
  }

  // See a row and its step in the views of the sample; what they meet there is found when needed.
  void look(const double* x, const double* step_) {
    seen_as(kRows, x, q(0), q(1));
    seen_as(kSteps, step_, q(4), q(2));
    row_reach = reach_of(q(0), d);
    step_reach = reach_of(q(4), d);
    std::fill_n(found, 3, false);
  }

  void meet_once(int k) {
    View& v = k == 0 ? plain : k == 1 ? white : steps;
    if (!found[k]) met[k] = meet(v, q(k), buffer(k));
    found[k] = true;
  }

  // Judge a row as the next one; the joined score, and -log p.
  void judge(const double* x, double* joined, double* score, double* members) {
    const bool first = whole(onkel::kCountT) == 0;
    const double fade = 1 - 2 / (plan.span + 1), mass = fade * *real(onkel::kLevelSmoothMass) + 1;
    for (int64_t j = 0; j < d; ++j) {
      step[static_cast<size_t>(j)] = first ? 0 : x[j] - s.last[j];
      mean[static_cast<size_t>(j)] = (fade * s.smooth[j] + x[j]) / mass;
    }
    *joined = *score = 0;
    if (members) std::fill_n(members, 9, 0.0);
    if (plain.count < plan.young || !*real(onkel::kLevelWidth)) return;
    const double tied = tie();
    look(x, step.data());
    double part[8] = {};
    meet_once(1);
    part[1] = tail_score(white, met[1], 0);
    if (tied < 1) {
      meet_once(0);
      part[0] = tail_score(plain, met[0], 0);
      part[5] = reach_score(plain, row_reach);
    }
    if (tied > 0) {
      meet_once(2);
      part[2] = tail_score(white, met[1], 1);
      part[3] = tail_score(steps, met[2], 0);
      part[6] = reach_score(white, row_reach);
      part[7] = reach_score(steps, step_reach);
      if (late.count >= plan.young && *late.width) {
        seen_as(kLate, mean.data(), nullptr, q(3));
        part[4] = tail_score(late, meet(late, q(3), buffer(3)), 0);
      }
    }
    // No view drowns the others: beyond kLoud a score counts by its logarithm.
    const auto loud = [](double x) { return x < kLoud ? x : kLoud + std::log1p(x - kLoud); };
    const auto with = [](double score, double reach) {
      return std::max(score, reach - kReachCost);
    };
    *joined = (1 - tied) * loud(std::max(with(part[0], part[5]), part[1] - kTurnCost)) +
              tied * (loud(with((part[1] + part[2]) / 2, part[6])) +
                      loud(with(part[3], part[7])) / 2 + loud(part[4]));
    *score = rank_score(*joined, tied);
    if (members) {
      std::copy_n(part, 8, members);
      members[8] = tied;
    }
  }

  // -- learning

  void remember(double joined) {
    int64_t &n = whole(onkel::kCountHistory), &at = whole(onkel::kCountHistoryAt);
    if (n == plan.history) {
      const double seen =
          std::min(static_cast<double>(whole(onkel::kCountT)) / 4, 0.4 * plan.memory);
      if (!(draw() < static_cast<double>(n) / seen)) return;
      at = std::min<int64_t>(static_cast<int64_t>(draw() * static_cast<double>(n)), n - 1);
      double* old =
          std::min(std::lower_bound(s.ranked, s.ranked + n, s.history[at]), s.ranked + n - 1);
      std::memmove(old, old + 1, static_cast<size_t>(s.ranked + n - old - 1) * sizeof(double));
      --n;
    }
    double* place = std::upper_bound(s.ranked, s.ranked + n, joined);
    std::memmove(place + 1, place, static_cast<size_t>(s.ranked + n - place) * sizeof(double));
    *place = joined;
    ++n;
    s.history[at] = joined;
    at = at + 1 == plan.history ? 0 : at + 1;
  }

  double draw() {
    return uniform(static_cast<uint64_t>(plan.seed),
                   static_cast<uint64_t>(whole(onkel::kCountDraws)++));
  }

  // The place that a row gets in a sample of `most`, -1 for none.
  int64_t chosen(double seen, double weight, int64_t count, int64_t most) {
    if (count < most) return count;
    const double chance = weight * static_cast<double>(most) / std::min(seen, plan.memory);
    if (!(draw() < chance)) return -1;
    return std::min<int64_t>(static_cast<int64_t>(draw() * static_cast<double>(most)), most - 1);
  }

  // Let a row and its step in; `known`: what they met is at hand.
  void admit(const double* x, const double* step_, double weight, bool known, bool clipped) {
    enter(kRows, onkel::kLevelRowMass, x, weight, clipped);
    enter(kSteps, onkel::kLevelStepMass, step_, weight, clipped);
    double& seen = *real(onkel::kLevelSeen);
    seen += weight;
    const int64_t at = chosen(seen, weight, plain.count, plan.terms);
    if (at < 0) return;
    s.marks[at] = clipped;
    std::copy_n(x, d, s.raw + at * d);
    std::copy_n(step_, d, s.raw + (s.places + at) * d);
    if (!*real(onkel::kLevelWidth)) {  // nothing is judged yet: the refresh will see to it
      if (at == plain.count) ++plain.count, ++white.count, ++steps.count;
    } else {
      if (!known) look(x, step_);
      for (int k = 0; k < 3; ++k) meet_once(k);
      put(plain, at, q(0), row_reach, met[0], buffer(4));
      put(white, at, q(1), row_reach, met[1], buffer(4));
      put(steps, at, q(2), step_reach, met[2], buffer(4));
      if (++whole(onkel::kCountFresh) * 50 > plain.count) {
        for (View* v : {&plain, &white, &steps}) fit_tails(*v, buffer(4));
        whole(onkel::kCountFresh) = 0;
      }
    }
    whole(onkel::kCountSize) = plain.count;
  }

  int64_t delay(int64_t t) const { return std::min(plan.delay, t / 2); }

  // Let in the means that have waited long enough.
  void learn_late() {
    const int64_t t = whole(onkel::kCountT);  // rows so far, this one included
    int64_t& next = whole(onkel::kCountLateSeen);
    for (; next < t - delay(t); ++next) {
      const double* x = s.waiting + (next % s.waits) * d;
      enter(kLate, onkel::kLevelLateMass, x, 1.0, false);
      double& seen = *real(onkel::kLevelLateWeight);
      seen += 1;
      const int64_t at = chosen(seen, 1.0, late.count, plan.late_terms);
      if (at < 0) continue;
      std::copy_n(x, d, s.late_raw + at * d);
      if (!*late.width) {
        if (at == late.count) ++late.count;
      } else {
        seen_as(kLate, x, nullptr, q(3));
        const Met there = meet(late, q(3), buffer(3));
        put(late, at, q(3), 0, there, buffer(4));
        if (++whole(onkel::kCountLateFresh) * 50 > late.count) {
          fit_tails(late, buffer(4));
          whole(onkel::kCountLateFresh) = 0;
        }
      }
      whole(onkel::kCountLateSize) = late.count;
    }
  }

  // The level moves by a small step against its debt, and forgets what lies beyond its limits.
  void settle_level(bool alert) {
    ++whole(onkel::kCountJudged);
    whole(onkel::kCountAlerts) += alert;
    double& level = *real(onkel::kLevelLogAlpha);
    level += plan.rate * (plan.nu - (alert ? 1.0 : 0.0));
    const double low = std::log(plan.low), high = std::log(plan.high);
    if (level < low) *real(onkel::kLevelForgiven) += low - level, level = low;
    if (level > high) *real(onkel::kLevelUnspent) += level - high, level = high;
    double& recent = *real(onkel::kLevelRecent);
    recent += ((alert ? 1.0 : 0.0) - recent) / 1000;
  }

  void release() {
    const int64_t t = whole(onkel::kCountT);
    int64_t &first = whole(onkel::kCountHeldFirst), &held = whole(onkel::kCountHeld);
    while (held > 0 && s.due[first] <= t) {
      const double* x = s.held + first * (2 * d + 2);
      admit(x, x + d, x[2 * d], false, true);
      if (!std::isnan(x[2 * d + 1]) && draw() < 0.5 * plan.nu / *real(onkel::kLevelRecent))
        remember(x[2 * d + 1]);
      first = first + 1 == s.holds ? 0 : first + 1;
      --held;
    }
  }

  void learn(const double* x, double weight, double joined, double score, bool alert) {
    const int64_t t = whole(onkel::kCountT);
    const bool gross = alert && -score < *real(onkel::kLevelLogAlpha) - kGross;
    if (!gross && plain.count >= plan.young && *real(onkel::kLevelWidth)) remember(joined);
    if (t >= plan.warmup) settle_level(alert);
    if (alert) {
      const int64_t at = (whole(onkel::kCountHeldFirst) + whole(onkel::kCountHeld)++) % s.holds;
      double* row = s.held + at * (2 * d + 2);
      std::copy_n(x, d, row);
      std::copy_n(step.data(), d, row + d);
      row[2 * d] = weight;
      row[2 * d + 1] = gross ? joined : NAN;
      s.due[at] = t + 1 + std::min(plan.hold, t / 2);
    } else {
      admit(x, step.data(), weight, plain.count >= plan.young && *real(onkel::kLevelWidth) > 0,
            false);
    }
    if (!alert && !whole(onkel::kCountAlarmed)) take_calm(x);
    whole(onkel::kCountAlarmed) = alert;
    const double fade = 1 - 2 / (plan.span + 1);
    const double share = 1 / std::min(static_cast<double>(t + 1), plan.memory);
    double& mass = *real(onkel::kLevelSmoothMass);
    mass = fade * mass + 1;
    for (int64_t j = 0; j < d; ++j) {
      s.size[j] += share * (std::fabs(x[j]) - s.size[j]);
      s.smooth[j] = fade * s.smooth[j] + x[j];
      s.last[j] = x[j];
      s.waiting[(t % s.waits) * d + j] = s.smooth[j] / mass;
    }
    ++whole(onkel::kCountT);
    learn_late();
    release();
    refresh();
  }
};

void density(const DensityPlan& plan, Density& s) {
  Machine machine(plan, s);
  if (s.weight || !s.rows) machine.refresh();  // due only in a state put together by hand
  std::vector<double> row(static_cast<size_t>(s.d));
  for (int64_t i = 0; i < s.rows; ++i) {
    const double weight = s.weight ? std::min(s.weight[i], plan.memory) : 0;
    const double* x = s.x + i * s.d;
    for (int64_t j = 0; j < s.d; ++j) {  // a value that has not come is the mean so far
      const double v = std::isnan(x[j]) ? s.mean[j] : x[j];
      row[static_cast<size_t>(j)] = std::max(-kLargest, std::min(v, kLargest));
    }
    double joined, score;
    machine.judge(row.data(), &joined, &score, s.members ? s.members + i * 9 : nullptr);
    const double level = s.real[onkel::kLevelLogAlpha];
    const bool alert = s.whole[onkel::kCountT] >= plan.warmup && -score < level;
    s.out[i * 4] = 0 - score;  // 0, not -0, where nothing is known
    s.out[i * 4 + 1] = level;
    s.out[i * 4 + 2] = alert;
    s.out[i * 4 + 3] = joined;
    if (weight > 0) machine.learn(row.data(), weight, joined, score, alert);
  }
}

}  // namespace
