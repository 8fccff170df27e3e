// Rows: one kernel against many terms. A tile of a few queries times one panel of terms is
// evaluated in registers and first-level cache; no block x terms matrix is written.
#pragma once
#include <algorithm>
#include <cmath>

#include "api.hpp"
#include "formulas.hpp"
#include "simd.hpp"

namespace {

using onkel::kLanes;
using onkel::Panels;
using onkel::Queries;

// Whether the first `codes` of d values of each row are codes: whole, from 0 to less than kCodes.
template <class T>
bool have_codes(const T* rows, int64_t n, int64_t d, int64_t codes) {
  const T most = static_cast<T>(onkel::kCodes - 1);
  int bad = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < codes; ++j) {
      const T x = rows[i * d + j], near = std::min(most, std::max(T(0), x));  // of NaN: 0
      bad |= static_cast<T>(static_cast<int32_t>(near)) != x;
    }
  return !bad;
}

constexpr int kTile = kBytes == 64 ? 8 : 4;  // queries that share each load of a term
constexpr int kDirect = 4;                   // up to so many features, distances by differences

template <class T, int R>
struct Tile {
  using V = typename Simd<T>::Vec;
  static constexpr int W = Simd<T>::width;
  static constexpr int size = R * kLanes;
  alignas(64) T dot[size], dist2[size], dist1[size];
  alignas(64) T slot[onkel::kMaxDepth][size];
};

// A group of R query rows, laid out [feature][query] so that one load serves a broadcast each.
// The first features are codes, of which q and v hold the same.
template <class T, int R>
struct Group {
  T* q;
  T* v;
  T off[R], norm[R];
  const T* width;
  int64_t d, codes;
};

// A group that `fill_group` fills, in memory for 2 R d numbers.
template <class T, int R>
inline Group<T, R> group_in(T* memory, const Queries<T>& queries) {
  Group<T, R> g;
  g.q = memory;
  g.v = memory + R * queries.d;
  g.width = queries.width;
  g.d = queries.d;
  g.codes = queries.codes;
  return g;
}

template <class T, int R>
inline void fill_group(Group<T, R>& g, const Queries<T>& queries, int64_t start) {
  for (int r = 0; r < R; ++r) {
    const int64_t row = start + r;
    const bool real = row < queries.rows;
    g.off[r] = real ? queries.off[row] : T(0);
    g.norm[r] = real ? queries.norm[row] : T(0);
    for (int64_t j = 0; j < g.d; ++j) {
      g.q[j * R + r] = real ? queries.q[row * g.d + j] : T(0);
      g.v[j * R + r] = real ? queries.v[row * g.d + j] : T(0);
    }
  }
}

// What codes add: to products where they agree, half of what they would be apart; to distances
// what they are apart where they differ. Rows without codes go through code of their own, which
// knows of none.
template <class T, bool Coded>
struct Agree {
  using V = typename Simd<T>::Vec;
  static constexpr bool coded = Coded;
  const T* width;
  V operator()(V acc, V x, V s, int64_t j) const {
    return plus_where(acc, x == s, width[j] * T(0.5));
  }
};

template <class T, bool Coded>
struct Differ {
  using V = typename Simd<T>::Vec;
  static constexpr bool coded = Coded;
  const T* width;
  V operator()(V acc, V x, V s, int64_t j) const { return plus_where(acc, x != s, width[j]); }
};

// Runs `add(acc, query value, term vector, feature)` over features first ... last - 1 of two
// vectors of terms.
template <class T, int R, class Add>
inline void add_features(const T* query, const T* panel, int64_t first, int64_t last,
                         typename Simd<T>::Vec* acc0, typename Simd<T>::Vec* acc1, Add add) {
  using V = typename Simd<T>::Vec;
  for (int64_t j = first; j < last; ++j) {
    const V s0 = load<V>(panel + j * kLanes);
    const V s1 = load<V>(panel + j * kLanes + Simd<T>::width);
    for (int r = 0; r < R; ++r) {
      const V x = broadcast<V>(query[j * R + r]);
      acc0[r] = add(acc0[r], x, s0, j);
      acc1[r] = add(acc1[r], x, s1, j);
    }
  }
}

// The sums over all d features: of `code` over the codes, of `add` over the rest.
template <class T, int R, class Code, class Add>
inline void add_both(const T* query, const T* panel, int64_t codes, int64_t d,
                     typename Simd<T>::Vec* acc0, typename Simd<T>::Vec* acc1, Code code, Add add) {
  if constexpr (Code::coded) add_features<T, R>(query, panel, 0, codes, acc0, acc1, code);
  add_features<T, R>(query, panel, Code::coded ? codes : 0, d, acc0, acc1, add);
}

// The same for all terms of a panel, two vectors at a time.
template <class T, int R, class Code, class Add>
inline void reduce_features(const Group<T, R>& g, const T* query, const T* panel, T* out, Code code,
                            Add add) {
  using V = typename Simd<T>::Vec;
  constexpr int W = Simd<T>::width;
  const int64_t codes = g.codes, d = g.d;
  for (int lane = 0; lane < kLanes; lane += 2 * W) {
    V acc0[R], acc1[R];
    for (int r = 0; r < R; ++r) acc0[r] = acc1[r] = V{};
    add_both<T, R>(query, panel + lane, codes, d, acc0, acc1, code, add);
    for (int r = 0; r < R; ++r) {
      store(out + r * kLanes + lane, acc0[r]);
      store(out + r * kLanes + lane + W, acc1[r]);
    }
  }
}

// Two sums over all features in one pass: `add(first, second, term vector, feature, row)`. Codes
// are compared once: `code` is what they add to the first sum, `other` of that what they add to the
// second. As many vectors at a time as the registers hold sums of.
template <class T, int R, class Code, class Other, class Add>
inline void reduce_both(const Group<T, R>& g, const T* panel, T* first, T* second, Code code,
                        Other other, Add add) {
  using V = typename Simd<T>::Vec;
  constexpr int W = Simd<T>::width, N = R == 1 ? 4 : 1;
  const int64_t codes = Code::coded ? g.codes : 0, d = g.d;
  for (int lane = 0; lane < kLanes; lane += N * W) {
    V a[N][R], b[N][R];
    for (int i = 0; i < N; ++i)
      for (int r = 0; r < R; ++r) a[i][r] = b[i][r] = V{};
    for (int64_t j = 0; j < codes; ++j)
      for (int i = 0; i < N; ++i) {
        const V s = load<V>(panel + j * kLanes + lane + i * W);
        for (int r = 0; r < R; ++r) a[i][r] = code(a[i][r], broadcast<V>(g.v[j * R + r]), s, j);
      }
    for (int i = 0; Code::coded && i < N; ++i)
      for (int r = 0; r < R; ++r) b[i][r] = other(a[i][r]);
    for (int64_t j = codes; j < d; ++j)
      for (int i = 0; i < N; ++i) {
        const V s = load<V>(panel + j * kLanes + lane + i * W);
        for (int r = 0; r < R; ++r) add(a[i][r], b[i][r], s, j, r);
      }
    for (int i = 0; i < N; ++i)
      for (int r = 0; r < R; ++r) {
        store(first + r * kLanes + lane + i * W, a[i][r]);
        store(second + r * kLanes + lane + i * W, b[i][r]);
      }
  }
}

// Squared distances from products and lengths; `products` are whole then, but where they lie
// where the distances go: what is not read needs no room of its own.
template <class T, int R>
inline void fill_distances(T* products, T* dist2, const Group<T, R>& g, const T* norms) {
  using V = typename Simd<T>::Vec;
  for (int r = 0; r < R; ++r)
    for (int l = 0; l < kLanes; l += Simd<T>::width) {
      const V dot = load<V>(products + r * kLanes + l) + g.off[r];
      store(products + r * kLanes + l, dot);
      const V d2 = load<V>(norms + l) + g.norm[r] - (dot + dot);
      store(dist2 + r * kLanes + l, larger(d2, V{}));
    }
}

template <class T, int R, bool Coded>
inline void fill_both(Tile<T, R>& tile, const Group<T, R>& g, const T* panel, const T* norms,
                      Needs needs) {
  using V = typename Simd<T>::Vec;
  const T *q = g.q, *v = g.v, *width = g.width;
  const Agree<T, Coded> agree{width};
  const Differ<T, Coded> differ{width};
  const bool direct = needs.dist2 && !needs.dot && g.d - g.codes <= kDirect;
  const bool product = needs.dot || (needs.dist2 && !direct);
  T* products = needs.dot ? tile.dot : tile.dist2;
  if (product && needs.dist1) {
    T all = 0;  // as much as codes add to a product where all agree
    for (int64_t j = 0; j < g.codes; ++j) all += width[j] * T(0.5);
    reduce_both<T, R>(
        g, panel, products, tile.dist1, agree, [all](V a) { return 2 * (all - a); },
        [=](V& a, V& b, V s, int64_t j, int r) {
          a = a + q[j * R + r] * s;
          b = b + magnitude(s - v[j * R + r]) * width[j];
        });
  } else if (product) {
    reduce_features<T, R>(g, q, panel, products, agree,
                          [](V acc, V x, V s, int64_t) { return acc + x * s; });
  } else if (direct && needs.dist1) {
    reduce_both<T, R>(
        g, panel, tile.dist2, tile.dist1, differ, [](V a) { return a; },
        [=](V& a, V& b, V s, int64_t j, int r) {
          const V t = (s - v[j * R + r]) * width[j];
          a = a + t * t;
          b = b + magnitude(t);
        });
  } else if (direct) {
    reduce_features<T, R>(g, v, panel, tile.dist2, differ, [width](V acc, V x, V s, int64_t j) {
      const V t = (x - s) * width[j];
      return acc + t * t;
    });
  } else if (needs.dist1) {
    reduce_features<T, R>(g, v, panel, tile.dist1, differ, [width](V acc, V x, V s, int64_t j) {
      return acc + magnitude(x - s) * width[j];
    });
  }
  if (product) fill_distances(products, tile.dist2, g, norms);
}

template <class T, int R>
inline void fill_statistics(Tile<T, R>& tile, const Group<T, R>& g, const T* panel, const T* norms,
                            Needs needs) {
  if (g.codes)
    fill_both<T, R, true>(tile, g, panel, norms, needs);
  else
    fill_both<T, R, false>(tile, g, panel, norms, needs);
}

template <class T, int N, class Map>
inline void map_tile(const T* in, T* out, Map map) {
  using V = typename Simd<T>::Vec;
  for (int i = 0; i < N; i += Simd<T>::width) store(out + i, map(load<V>(in + i)));
}

// Runs the postfix program over a tile; the kernel values are left in slot 0.
template <class T, int R>
inline void evaluate(Tile<T, R>& tile, Program program) {
  using V = typename Simd<T>::Vec;
  constexpr int N = Tile<T, R>::size;
  int top = -1;
  for (int i = 0; i < program.size; ++i)
    with_formula<T>(program.nodes[i], [&](auto op, auto formula) {
      if constexpr (op.row.pops == 2) {
        T* left = tile.slot[top - 1];
        const T* right = tile.slot[top--];
        for (int l = 0; l < N; l += Simd<T>::width)
          store(left + l, formula(load<V>(left + l), load<V>(right + l)));
      } else if constexpr (op.row.pops == 1) {
        map_tile<T, N>(tile.slot[top], tile.slot[top], formula);
      } else {
        const T* in = picked<op.row.reads>(tile.dot, tile.dist2, tile.dist1);
        T* out = tile.slot[++top];
        if constexpr (op.row.rooted) {
          const T a = T(program.nodes[i].a);
          for (int l = 0; l < N; ++l) out[l] = a * std::sqrt(in[l]);
          in = out;
        }
        map_tile<T, N>(in, out, formula);
      }
    });
}

// out[i] = k from the three statistics of pair i, of which those that are not read may be null.
void evaluate_pairs(Program program, const double* dot, const double* dist2, const double* dist1,
                    int64_t n, double* out) {
  Tile<double, 1> tile{};
  for (int64_t start = 0; start < n; start += kLanes) {
    const int64_t count = n - start < kLanes ? n - start : kLanes;
    const auto take = [&](const double* from, double* to) {
      for (int64_t l = 0; from && l < count; ++l) to[l] = from[start + l];
    };
    take(dot, tile.dot);
    take(dist2, tile.dist2);
    take(dist1, tile.dist1);
    evaluate<double, 1>(tile, program);
    for (int64_t l = 0; l < count; ++l) out[start + l] = tile.slot[0][l];
  }
}

// Calls visit(group start, panel index, kernel values) for every tile; `after(group start)` when
// a group has met all panels. Panels outside, groups inside, would share loads better but keep
// more sums alive: with 64-lane panels the terms of one group stay in the second-level cache.
template <class T, int R, class Visit>
inline void run_groups(Program program, const Queries<T>& queries, const Panels<T>& panels,
                       int64_t first_row, int64_t last_row, Visit visit) {
  Tile<T, R> tile;
  const Needs needs = needs_of(program);
  const int64_t d = queries.d, groups = (last_row - first_row + R - 1) / R;
  const int64_t each = 2 * R * d;
  Memory<T> memory(each * groups);
  Memory<Group<T, R>> storage(groups);
  Group<T, R>* all = storage.data;
  for (int64_t g = 0; g < groups; ++g) {
    all[g] = group_in<T, R>(memory.data + g * each, queries);
    fill_group(all[g], queries, first_row + g * R);
  }
  for (int64_t p = 0; p < panels.used; ++p) {
    const int64_t panel = (panels.first + p) % panels.capacity;
    for (int64_t g = 0; g < groups; ++g) {
      fill_statistics<T, R>(tile, all[g], panels.values + panel * d * kLanes,
                            panels.norms + panel * kLanes, needs);
      evaluate<T, R>(tile, program);
      visit(first_row + g * R, p, panel, tile.slot[0]);
    }
  }
}

// out[row][column] = sum over terms of coef[panel][column][lane] * k(row, term).
template <class T, int R>
inline void sums_of(Program program, const Queries<T>& queries, const Panels<T>& panels,
                    const T* coef, int64_t columns, int64_t first_row, int64_t last_row,
                    double* out) {
  using V = typename Simd<T>::Vec;
  constexpr int W = Simd<T>::width;
  run_groups<T, R>(program, queries, panels, first_row, last_row,
                   [&](int64_t row, int64_t, int64_t panel, const T* k) {
                     for (int r = 0; r < R && row + r < last_row; ++r)
                       for (int64_t c = 0; c < columns; ++c) {
                         const T* a = coef + (panel * columns + c) * kLanes;
                         V sum = V{};
                         for (int l = 0; l < kLanes; l += W)
                           sum = sum + load<V>(k + r * kLanes + l) * load<V>(a + l);
                         out[(row + r) * columns + c] += sum_lanes<T>(sum);
                       }
                   });
}

template <class T>
void sums(Program program, Queries<T> queries, Panels<T> panels, const T* coef, int64_t columns,
          double* out) {
  const int64_t full = queries.rows - queries.rows % kTile, rest = queries.rows - full;
  for (int64_t i = 0; i < queries.rows * columns; ++i) out[i] = 0;
  if (full) sums_of<T, kTile>(program, queries, panels, coef, columns, 0, full, out);
  if (rest > 1)
    sums_of<T, kTile>(program, queries, panels, coef, columns, full, queries.rows, out);
  else if (rest)
    sums_of<T, 1>(program, queries, panels, coef, columns, full, queries.rows, out);
}

// out[row][term] = k(row, term) for the first `terms` terms of the panels.
template <class T>
void matrix(Program program, Queries<T> queries, Panels<T> panels, int64_t terms, double* out) {
  run_groups<T, kTile>(
      program, queries, panels, 0, queries.rows, [&](int64_t row, int64_t p, int64_t, const T* k) {
        const int64_t start = p * kLanes;
        for (int r = 0; r < kTile && row + r < queries.rows; ++r)
          for (int l = 0; l < kLanes && start + l < terms; ++l)
            out[(row + r) * terms + start + l] = static_cast<double>(k[r * kLanes + l]);
      });
}

}  // namespace
