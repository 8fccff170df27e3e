// Trees: a node's children (or a leaf's points) are summed in one vectorised pass.
#pragma once
#include <type_traits>

#include "api.hpp"
#include "simd.hpp"
#include "tree_api.hpp"

namespace {

using onkel::array_of;
using onkel::kFan;
using onkel::kLeaf;
using onkel::kMaxRank;
using onkel::Pairs;
using onkel::Split;
using onkel::SplitCode;
using onkel::TreeView;

constexpr int kWide = Simd<double>::width;
constexpr int kGroup = 16;      // walks down the trees at a time, to hide the wait for memory
constexpr double kFar = 750.0;  // e^{-kFar} is 0: cut here, so that infinite padding stays finite
constexpr int kMost = kLeaf > kFan ? kLeaf : kFan;
static_assert(kLeaf % 8 == 0 && kFan % 8 == 0, "whole vectors on every level");

template <class V>
inline V smaller(V a, V b) {
  return a < b ? a : b;
}

inline double total(VecD v) {
  alignas(kBytes) double part[kWide];
  store(part, v);
  for (int half = kWide / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
}

inline VecD exponent(double sigma, VecD distance) {
  return smaller(larger(distance, VecD{}) * sigma, broadcast<VecD>(kFar));
}

// sum_k c_k C(k, j) s^{k-j}, k < R: what e^{-s} is multiplied by, for moment j beyond an anchor.
template <int R>
inline VecD growth(const double* c, VecD s, int j) {
  VecD sum = VecD{};
  for (int k = R - 1; k >= j; --k) {
    constexpr double choose[3][3] = {{1, 0, 0}, {1, 1, 0}, {1, 2, 1}};
    sum = sum * s + c[k] * choose[k][j];
  }
  return sum;
}

// The spline's formula, without cancellation: all its parts are positive for p, q >= 0.
inline VecD spline(const Split& k, VecD x, VecD y) {
  const VecD p = smaller(x, y), d = larger(x, y) - p, both = x * y;
  VecD power = broadcast<VecD>(1.0), sum = broadcast<VecD>(k.c[0]), lead = p, rest = power;
  for (int r = 1; r < k.rank; ++r) {
    power = power * d;
    sum = sum * p + power * k.c[r];
    lead = lead * p;
    rest = rest * both + 1.0;
  }
  return sum * lead + rest;
}

template <int R>  // R = 0: kPoly; else kExpPoly of this rank
inline VecD kernel_value(const Split& k, VecD x, VecD y) {
  if constexpr (R == 0) return spline(k, x, y);
  const VecD s = exponent(k.sigma, magnitude(x - y));
  return vexp(-s) * growth<R>(k.c, s, 0);
}

// Calls use(R) with R as above, a constant.
template <class Use>
inline void with_shape(const Split& k, Use use) {
  switch (k.kind) {
    case SplitCode::kPoly:
      return use(std::integral_constant<int, 0>());
    case SplitCode::kExpPoly:
      if (k.rank == 1) return use(std::integral_constant<int, 1>());
      if (k.rank == 2) return use(std::integral_constant<int, 2>());
      return use(std::integral_constant<int, 3>());
  }
  onkel::refuse("split", static_cast<int>(k.kind));
}

// -- reading -------------------------------------------------------------------------------------

struct Walk {
  const onkel::TreeNode* node;
  int level;
  double x;
  const Split* split;
  double* sums;                                 // [columns][kWide]
  double below[2 * kMaxRank], above[kMaxRank];  // kPoly: what x makes of moments left, right of it
};

inline void prepare_poly(Walk& w) {
  const int rank = w.split->rank;
  double power = 1;
  for (int k = 0; k < 2 * rank; ++k) w.below[k] = 0;
  for (int j = 0; j < rank; ++j) w.above[j] = 0;
  for (int i = 0; i < 2 * rank; ++i, power *= w.x) {
    for (int j = 0; j < rank; ++j) w.above[j] += w.split->table[i][j] * power;
    if (i < rank)
      for (int k = 0; k < 2 * rank; ++k) w.below[k] += w.split->table[k][i] * power;
  }
}

template <int R>
inline void read_leaf(const Walk& w, int64_t columns) {
  const VecD x = broadcast<VecD>(w.x);
  for (int64_t l = 0; l < w.node->n; l += kWide) {
    const VecD value =
        kernel_value<R>(*w.split, x, load<VecD>(array_of(w.node, kLeaf, onkel::kLeafX) + l));
    for (int64_t c = 0; c < columns; ++c) {
      const double* a = array_of(w.node, kLeaf, onkel::kLeafCoef + c) + l;
      double* sums = w.sums + c * kWide;
      store(sums, load<VecD>(sums) + value * load<VecD>(a));
    }
  }
}

// Children left of x are seen from their last point, those right of it from their first.
template <int R>
inline void read_children(const Walk& w, int64_t columns, int64_t l, IntD left, VecD distance) {
  const VecD s = exponent(w.split->sigma, distance);
  const VecD e = distance < VecD{} ? VecD{} : vexp(-s);
  VecD factor[R];
  for (int j = 0; j < R; ++j) factor[j] = e * growth<R>(w.split->c, s, j);
  for (int64_t c = 0; c < columns; ++c) {
    double* sums = w.sums + c * kWide;
    VecD sum = load<VecD>(sums);
    for (int j = 0; j < R; ++j) {
      const double* m = array_of(w.node, kFan, onkel::kMoment + j * columns + c) + l;
      sum = sum + factor[j] * (left ? load<VecD>(m) : load<VecD>(m + R * columns * kFan));
    }
    store(sums, sum);
  }
}

inline void read_children_poly(const Walk& w, int64_t columns, int64_t l, IntD left,
                               VecD distance) {
  const int rank = w.split->rank;
  for (int k = 0; k < 2 * rank; ++k) {
    const VecD above = k < rank ? broadcast<VecD>(w.above[k]) : VecD{};
    VecD factor = left ? broadcast<VecD>(w.below[k]) : above;
    factor = distance < VecD{} ? VecD{} : factor;
    for (int64_t c = 0; c < columns; ++c) {
      const double* m = array_of(w.node, kFan, onkel::kMoment + k * columns + c) + l;
      double* sums = w.sums + c * kWide;
      store(sums, load<VecD>(sums) + factor * load<VecD>(m));
    }
  }
}

// Sums the children that lie on one side of x; returns the one around x, if there is one.
template <int R>
inline const onkel::TreeNode* read_branch(const Walk& w, int64_t columns) {
  const VecD x = broadcast<VecD>(w.x);
  const double* child = array_of(w.node, kFan, onkel::kChild);
  IntD next = IntD{};
  for (int64_t l = 0; l < w.node->n; l += kWide) {
    const VecD lo = load<VecD>(array_of(w.node, kFan, onkel::kLo) + l);
    const VecD hi = load<VecD>(array_of(w.node, kFan, onkel::kHi) + l);
    const IntD left = lo <= x;
    const VecD distance = left ? x - hi : lo - x;  // negative for the one around x alone
    next |= (distance < VecD{}) & load<IntD>(child + l);
    if constexpr (R == 0)
      read_children_poly(w, columns, l, left, distance);
    else
      read_children<R>(w, columns, l, left, distance);
  }
  int64_t address = 0;
  for (int i = 0; i < kWide; ++i) address |= next[i];
  return reinterpret_cast<const onkel::TreeNode*>(address);
}

template <int R>
inline void step_down(Walk& w, int64_t columns) {
  if (w.level == 0) {
    read_leaf<R>(w, columns);
    w.node = nullptr;
    return;
  }
  w.node = read_branch<R>(w, columns);
  if (!w.node) return;
  const int64_t arrays =
      --w.level ? onkel::kMoment + 2 * w.split->rank * columns : onkel::kLeafCoef + columns;
  onkel::prefetch(w.node, 64 + 8 * arrays * (w.level ? kFan : kLeaf));
}

inline void step_any(Walk& w, int64_t columns) {
  with_shape(*w.split, [&](auto R) { step_down<R.value>(w, columns); });
}

inline void walk_all(Walk* walks, int64_t count, int64_t columns) {
  for (bool going = true; going;) {
    going = false;
    for (int64_t i = 0; i < count; ++i)
      if (walks[i].node) {
        step_any(walks[i], columns);
        going = true;
      }
  }
}

inline void start_walks(Walk* walks, int64_t count, Pairs pairs, int64_t start,
                        const TreeView* trees, const double* X, double* sums, int64_t columns) {
  for (int64_t i = 0; i < count * columns * kWide; ++i) sums[i] = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t j = pairs.coordinate(start + i);
    Walk& w = walks[i];
    w.node = trees[j].root;
    w.level = trees[j].height;
    w.x = X[pairs.row(start + i) * pairs.coordinates + j];
    w.split = &trees[j].split;
    w.sums = sums + i * columns * kWide;
    if (w.split->kind == SplitCode::kPoly) prepare_poly(w);
  }
}

void forest_query(const TreeView* trees, int64_t coordinates, int64_t columns, const double* X,
                  int64_t rows, double* out) {
  Memory<double> sums(kGroup * columns * kWide);
  Walk walks[kGroup];
  const Pairs pairs{rows, coordinates};
  for (int64_t i = 0; i < rows * columns; ++i) out[i] = 0;
  for (int64_t start = 0; start < pairs.count(); start += kGroup) {
    const int64_t left = pairs.count() - start, count = left < kGroup ? left : kGroup;
    start_walks(walks, count, pairs, start, trees, X, sums.data, columns);
    walk_all(walks, count, columns);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t c = 0; c < columns; ++c)
        out[pairs.row(start + i) * columns + c] +=
            walks[i].split->weight * total(load<VecD>(walks[i].sums + c * kWide));
  }
}

// -- describing a child
// ----------------------------------------------------------------------------

// For each of a node's children (points), how far it stands from the node's last and first x.
struct Shifts {
  alignas(64) double e[2][kMost], s[2][kMost];
};

inline void fill_shifts(Shifts& shifts, double sigma, const double* lo, const double* hi,
                        int64_t n) {
  const VecD first = broadcast<VecD>(lo[0]), last = broadcast<VecD>(hi[n - 1]);
  for (int64_t l = 0; l < n; l += kWide) {
    const VecD s0 = exponent(sigma, last - load<VecD>(hi + l));
    const VecD s1 = exponent(sigma, load<VecD>(lo + l) - first);
    store(shifts.s[0] + l, s0);
    store(shifts.s[1] + l, s1);
    store(shifts.e[0] + l, vexp(-s0));
    store(shifts.e[1] + l, vexp(-s1));
  }
}

// Moments seen from an anchor s further out: u^j becomes (u + s)^j. Outwards only: nothing grows.
template <int R>
inline void shift_moments(VecD (&m)[R], VecD s) {
  if constexpr (R == 3) m[2] = m[2] + s * (m[1] * 2.0 + s * m[0]);
  if constexpr (R >= 2) m[1] = m[1] + s * m[0];
}

template <int R, bool Leaf>
inline void describe_side(const Shifts& shifts, int side, int64_t columns,
                          const onkel::TreeNode* child, int64_t c, onkel::TreeNode* parent,
                          int64_t slot) {
  VecD sum[R] = {};
  for (int64_t l = 0; l < child->n; l += kWide) {
    VecD m[R] = {};
    if constexpr (Leaf)
      m[0] = load<VecD>(array_of(child, kLeaf, onkel::kLeafCoef + c) + l);
    else
      for (int j = 0; j < R; ++j)
        m[j] = load<VecD>(array_of(child, kFan, onkel::kMoment + (side * R + j) * columns + c) + l);
    shift_moments<R>(m, load<VecD>(shifts.s[side] + l));
    for (int j = 0; j < R; ++j) sum[j] = sum[j] + load<VecD>(shifts.e[side] + l) * m[j];
  }
  for (int j = 0; j < R; ++j)
    array_of(parent, kFan, onkel::kMoment + (side * R + j) * columns + c)[slot] = total(sum[j]);
}

template <int R, bool Leaf>
inline void describe_exp(const Split& k, int64_t columns, const onkel::TreeNode* child,
                         onkel::TreeNode* parent, int64_t slot) {
  Shifts shifts;
  fill_shifts(shifts, k.sigma, array_of(child, kFan, 0),
              Leaf ? array_of(child, kLeaf, onkel::kLeafX) : array_of(child, kFan, onkel::kHi),
              child->n);
  for (int64_t c = 0; c < columns; ++c)
    for (int side = 0; side < 2; ++side)
      describe_side<R, Leaf>(shifts, side, columns, child, c, parent, slot);
}

template <int R>
inline void describe_exp(const Split& k, int64_t columns, const onkel::TreeNode* child, int level,
                         onkel::TreeNode* parent, int64_t slot) {
  if (level == 0)
    describe_exp<R, true>(k, columns, child, parent, slot);
  else
    describe_exp<R, false>(k, columns, child, parent, slot);
}

inline void describe_poly(const Split& k, int64_t columns, const onkel::TreeNode* child, int level,
                          onkel::TreeNode* parent, int64_t slot) {
  VecD power[kMost / kWide];
  for (VecD& p : power) p = broadcast<VecD>(1.0);
  for (int j = 0; j < 2 * k.rank; ++j) {
    for (int64_t c = 0; c < columns; ++c) {
      const double* m = level ? array_of(child, kFan, onkel::kMoment + j * columns + c)
                              : array_of(child, kLeaf, onkel::kLeafCoef + c);
      VecD sum = VecD{};
      for (int64_t l = 0; l < child->n; l += kWide)
        sum = sum + load<VecD>(m + l) * power[l / kWide];
      array_of(parent, kFan, onkel::kMoment + j * columns + c)[slot] = total(sum);
    }
    if (level == 0)
      for (int64_t l = 0; l < child->n; l += kWide)
        power[l / kWide] = power[l / kWide] * load<VecD>(array_of(child, kLeaf, onkel::kLeafX) + l);
  }
}

void forest_describe(const Split& k, int64_t columns, onkel::TreeNode* child, int level,
                     onkel::TreeNode* parent, int64_t slot) {
  const double* last = level ? array_of(child, kFan, onkel::kHi) : array_of(child, kLeaf, 0);
  array_of(parent, kFan, onkel::kLo)[slot] = array_of(child, kFan, 0)[0];  // x or lo
  array_of(parent, kFan, onkel::kHi)[slot] = last[child->n - 1];
  onkel::branch_ids(parent)[slot] = level ? onkel::branch_ids(child)[0] : onkel::leaf_ids(child)[0];
  onkel::children_of(parent)[slot] = child;
  with_shape(k, [&](auto R) {
    if constexpr (R.value == 0)
      describe_poly(k, columns, child, level, parent, slot);
    else
      describe_exp<R.value>(k, columns, child, level, parent, slot);
  });
}

// -- the dense competitor
// --------------------------------------------------------------------------

template <int R>
inline void add_values(const Split& k, double x, const double* z, int64_t terms, double* out) {
  const VecD at = broadcast<VecD>(x);
  for (int64_t l = 0; l < terms; l += kWide)
    store(out + l, load<VecD>(out + l) + kernel_value<R>(k, at, load<VecD>(z + l)) * k.weight);
}

inline void add_any(const Split& k, double x, const double* z, int64_t terms, double* out) {
  with_shape(k, [&](auto R) { add_values<R.value>(k, x, z, terms, out); });
}

// By tiles of terms laid out [coordinate][lane], so that each is read into cache once.
void additive_matrix(const Split* splits, int64_t coordinates, const double* X, int64_t rows,
                     const double* Z, int64_t terms, double* out) {
  constexpr int64_t tile = 512;
  Memory<double> z(coordinates * tile);
  alignas(64) double values[tile];
  for (int64_t start = 0; start < terms; start += tile) {
    const int64_t count = terms - start < tile ? terms - start : tile;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < coordinates; ++j)
        z.data[j * tile + i] = Z[(start + i) * coordinates + j];
    for (int64_t r = 0; r < rows; ++r) {
      for (double& v : values) v = 0;
      for (int64_t j = 0; j < coordinates; ++j)
        add_any(splits[j], X[r * coordinates + j], z.data + j * tile, count, values);
      std::memcpy(out + r * terms + start, values, static_cast<size_t>(count) * sizeof(double));
    }
  }
}

}  // namespace
