// One way of looking at rows: what a row meets among the terms, read as a tail probability. The
// readable form is onkel/core/numpy_views.py.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <vector>

#include "simd.hpp"

namespace {

constexpr int kWF = Simd<float>::width;
constexpr float kItself = 3e38f;     // how far a term is from itself, where only others count
constexpr double kNear = 1e-25;      // the least distance that a width is made of
constexpr double kTied = 1 + 1e-5;   // sums this close are the same
constexpr double kTailShare = 0.05;  // of the terms: those beyond which the tail is fitted ...
constexpr int64_t kTailLeast = 10;   // ... at least
constexpr double kLog2 = 0.69314718055994530942;

// The terms as one view sees them, and each term's kernel sums over the others.
struct View {
  int64_t d, places, count;
  float* z;              // [d][places]
  float* sums;           // [widths][places]
  float* reach;          // [places] the largest coordinate, before it was turned
  const uint8_t* marks;  // [places] whether a term once raised an alert, or null
  int widths;            // 2: four times narrower, too
  bool crow;             // distances as the crow flies, which no turning changes; else by the axes
  double* width;
  double *edge, *slope;              // of the tail, one for each width
  double *reach_edge, *reach_slope;  // of the largest coordinates
};

// Terms in whole vectors: places come in sixteens, and those without a term add nothing.
inline int64_t lanes(const View& v) { return (v.count + kWF - 1) / kWF * kWF; }

inline void point(const View& v, int64_t i, float* q) {
  for (int64_t j = 0; j < v.d; ++j) q[j] = v.z[j * v.places + i];
}

inline float reach_of(const float* q, int64_t d) {
  float most = 0;
  for (int64_t j = 0; j < d; ++j) most = std::max(most, std::fabs(q[j]));
  return most;
}

inline VecF root(VecF x) {
  for (int k = 0; k < kWF; ++k) x[k] = std::sqrt(x[k]);
  return x;
}

// The distances of a row to the terms from i on, kAtOnce vectors of them: sums that do not wait for
// each other.
template <bool kCrow, int kAtOnce>
inline void some_distances(const View& v, const float* q, int64_t i, float* out, VecF& least) {
  VecF sum[kAtOnce] = {};
  for (int64_t j = 0; j < v.d; ++j) {
    const float* z = v.z + j * v.places + i;
    for (int k = 0; k < kAtOnce; ++k) {
      const VecF gap = load<VecF>(z + k * kWF) - broadcast<VecF>(q[j]);
      sum[k] = sum[k] + (kCrow ? gap * gap : magnitude(gap));
    }
  }
  for (int k = 0; k < kAtOnce; ++k) {
    if (kCrow) sum[k] = root(sum[k]);
    store(out + i + k * kWF, sum[k]);
    least = sum[k] < least ? sum[k] : least;
  }
}

template <bool kCrow>
inline VecF all_distances(const View& v, const float* q, float* out) {
  VecF least = broadcast<VecF>(kItself);
  int64_t i = 0;
  for (; i + 4 * kWF <= lanes(v); i += 4 * kWF) some_distances<kCrow, 4>(v, q, i, out, least);
  for (; i < lanes(v); i += kWF) some_distances<kCrow, 1>(v, q, i, out, least);
  return least;
}

// The distances of a row to all terms; returns the least.
inline float distances(const View& v, const float* q, float* out) {
  const VecF least = v.crow ? all_distances<true>(v, q, out) : all_distances<false>(v, q, out);
  float found = least[0];
  for (int k = 1; k < kWF; ++k) found = std::min(found, least[k]);
  return found;
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
  // vexp knows exponents up to 0; a width below that is none that was tuned.
  const float c = static_cast<float>(std::max(0.0, *v.width));
  for (int64_t i = 0; i < lanes(v); i += kWF)
    store(buffer + i, vexp((load<VecF>(buffer + i) - least) * -c));
  return {buffer, static_cast<double>(c) * least};
}

inline double total(const View& v, const Met& met, int w) {
  VecF sum = VecF{};
  for (int64_t i = 0; i < lanes(v); i += kWF) sum = sum + raised(load<VecF>(met.values + i), w);
  return sum_lanes<float>(sum);
}

// How many terms lie in a density at most as high as the row's, each with the row among its own.
inline int64_t at_most(const View& v, const Met& met, int w, double sum) {
  const float factor = static_cast<float>(met.factor(w));
  const float own = static_cast<float>(sum * factor * kTied);
  const float* sums = v.sums + w * v.places;
  IntF hits = IntF{};
  for (int64_t i = 0; i < lanes(v); i += kWF) {
    const VecF theirs = load<VecF>(sums + i) + raised(load<VecF>(met.values + i), w) * factor;
    hits = hits - (theirs <= broadcast<VecF>(own));
  }
  int64_t found = 0;
  for (int k = 0; k < kWF; ++k) found += hits[k];
  return found;
}

// How many of n scores make the tail: a share of them, but at least so many (or a quarter of all).
inline int64_t in_tail(int64_t n, double share, int64_t least) {
  return std::max(std::min(least, n / 4), static_cast<int64_t>(share * static_cast<double>(n)));
}

inline int64_t tail_of(int64_t n) { return in_tail(n, kTailShare, kTailLeast); }

// -log p at the edge of the tail.
inline double edge_score(int64_t n) {
  return std::log(static_cast<double>(n) / static_cast<double>(tail_of(n)));
}

// -log of the tail probability of a row's density, among the terms' own.
inline double tail_score(const View& v, const Met& met, int w) {
  const double n = static_cast<double>(v.count), sum = total(v, met, w);
  const double s = met.least * (w ? 4 : 1) - std::log(sum / n);
  if (s > v.edge[w]) return edge_score(v.count) + (s - v.edge[w]) / v.slope[w];
  return -std::log((1.0 + static_cast<double>(at_most(v, met, w, sum))) / (n + 1.0));
}

// The same of a row's largest coordinate.
inline double reach_score(const View& v, float own) {
  const double n = static_cast<double>(v.count);
  if (own > *v.reach_edge) return edge_score(v.count) + (own - *v.reach_edge) / *v.reach_slope;
  int64_t farther = 0;
  for (int64_t i = 0; i < v.count; ++i) farther += v.reach[i] >= own;
  return -std::log((1.0 + static_cast<double>(farther)) / (n + 1.0));
}

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

// Where the tails begin and how fast they fall, from the terms' own sums and reaches: an
// exponential tail falls by half between its k-th and its (k / 2)-th.
inline void fit_tails(const View& v, float* buffer) {
  for (int w = 0; w < v.widths; ++w) {
    const int64_t n = usual(v, v.sums + w * v.places, buffer), k = tail_of(n);
    const auto score = [&](int64_t at) {
      std::nth_element(buffer, buffer + at, buffer + n);
      return -std::log(std::max(static_cast<double>(buffer[at]), 1e-37) /
                       static_cast<double>(v.count - 1));
    };
    v.edge[w] = score(k);
    v.slope[w] = std::max((score(k / 2) - v.edge[w]) / kLog2, 0.3);
  }
  const int64_t n = usual(v, v.reach, buffer), k = tail_of(n);
  const auto reach = [&](int64_t at) {
    std::nth_element(buffer, buffer + at, buffer + n, std::greater<float>());
    return static_cast<double>(buffer[at]);
  };
  *v.reach_edge = reach(k);
  *v.reach_slope = std::max((reach(k / 2) - *v.reach_edge) / kLog2, 0.1);
}

// A term's kernel sum over the others, itself (or whose place it takes) left out before anything is
// added: of a sum that holds a 1, float32 keeps nothing that is smaller than 1e-7.
inline float sum_but(const View& v, const Met& met, int64_t but, int w) {
  if (but < v.count) met.values[but] = 0;
  return static_cast<float>(total(v, met, w) * met.factor(w));
}

// Take a term out of the others' sums.
inline void take_out(View& v, int64_t place, float* buffer) {
  float* old = buffer + v.places;
  point(v, place, old);
  const Met gone = meet(v, old, buffer);
  for (int w = 0; w < v.widths; ++w) {
    const float factor = static_cast<float>(gone.factor(w));
    float* sums = v.sums + w * v.places;
    for (int64_t i = 0; i < lanes(v); i += kWF) {
      const VecF left = load<VecF>(sums + i) - raised(load<VecF>(gone.values + i), w) * factor;
      store(sums + i, larger(left, VecF{}));
    }
  }
}

// Put a row in a place, new (place == count) or another term's; `met` is what it met there.
inline void put(View& v, int64_t place, const float* q, float reach, const Met& met,
                float* buffer) {
  if (place < v.count) take_out(v, place, buffer);
  for (int w = 0; w < v.widths; ++w) {
    const float factor = static_cast<float>(met.factor(w));
    float* sums = v.sums + w * v.places;
    for (int64_t i = 0; i < lanes(v); i += kWF)
      store(sums + i, load<VecF>(sums + i) + raised(load<VecF>(met.values + i), w) * factor);
    sums[place] = sum_but(v, met, place, w);
  }
  for (int64_t j = 0; j < v.d; ++j) v.z[j * v.places + place] = q[j];
  v.reach[place] = reach;
  if (place == v.count) ++v.count;
}

// The distances of every so many-th term to all; itself is farther than any.
inline std::vector<std::vector<float>> seen_by_some(const View& v, float* buffer) {
  std::vector<std::vector<float>> seen;
  std::vector<float> q(static_cast<size_t>(v.d));
  for (int64_t i = 0; i < v.count; i += std::max<int64_t>(1, v.count / 40)) {
    point(v, i, q.data());
    distances(v, q.data(), buffer);
    buffer[i] = kItself;
    seen.emplace_back(buffer, buffer + v.count);
  }
  return seen;
}

// The middle of numbers, whose order is lost; the higher one of two.
template <class T>
inline T middle(std::vector<T>& values) {
  const auto half = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

// A kernel sum over distances.
inline double sum_at(const std::vector<float>& seen, float rate) {
  VecF sum = VecF{};
  size_t l = 0;
  for (; l + kWF <= seen.size(); l += kWF) sum = sum + vexp(load<VecF>(&seen[l]) * rate);
  double all = sum_lanes<float>(sum);
  for (; l < seen.size(); ++l) all += std::exp(static_cast<double>(seen[l] * rate));
  return all;
}

// The width at which half of the terms see so many others, by bisection of its logarithm.
inline double tuned_width(const View& v, float* buffer) {
  const auto seen = seen_by_some(v, buffer);
  std::vector<float> positive;
  for (const auto& row : seen)
    std::copy_if(row.begin(), row.end(), std::back_inserter(positive),
                 [](float x) { return x > 0 && x < kItself; });
  if (positive.empty()) return 4.0 / static_cast<double>(v.d);
  const double median = std::max<double>(middle(positive), kNear);
  const double n = static_cast<double>(v.count), wanted = std::min(std::max(5.0, 0.02 * n), n / 4);
  double low = std::log(1e-3 / median), high = std::log(1e4 / median);
  std::vector<double> sums(seen.size());
  for (int round = 0; round < 14; ++round) {
    const double c = (low + high) / 2;
    const float rate = static_cast<float>(-std::exp(c));
    std::transform(seen.begin(), seen.end(), sums.begin(),
                   [rate](const std::vector<float>& row) { return sum_at(row, rate); });
    (middle(sums) > wanted ? low : high) = c;
  }
  return std::exp((low + high) / 2);
}

// Everything of a view anew, from its coordinates.
inline void settle(View& v, float* buffer) {
  if (v.count < 2) return;
  *v.width = tuned_width(v, buffer);
  std::vector<float> q(static_cast<size_t>(v.d));
  for (int64_t i = 0; i < v.count; ++i) {
    point(v, i, q.data());
    const Met met = meet(v, q.data(), buffer);
    for (int w = 0; w < v.widths; ++w) v.sums[w * v.places + i] = sum_but(v, met, i, w);
  }
  fit_tails(v, buffer);
}

}  // namespace
