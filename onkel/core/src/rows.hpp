// Rows: one kernel against many terms. A tile of a few queries times one panel of terms is
// evaluated in registers and first-level cache; no block x terms matrix is written.
#pragma once
#include <cmath>

#include "api.hpp"
#include "formulas.hpp"
#include "simd.hpp"

namespace {

using onkel::kLanes;
using onkel::Panels;
using onkel::Queries;

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
template <class T, int R>
struct Group {
  T* q;
  T* v;
  T off[R], norm[R];
  const T* width;
  int64_t d;
};

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

// Runs `add(acc, query value, term vector, feature)` over all features, two vectors at a time.
template <class T, int R, class Add>
inline void reduce_features(const T* query, const T* panel, int64_t d, T* out, Add add) {
  using V = typename Simd<T>::Vec;
  constexpr int W = Simd<T>::width;
  for (int lane = 0; lane < kLanes; lane += 2 * W) {
    V acc0[R], acc1[R];
    for (int r = 0; r < R; ++r) acc0[r] = acc1[r] = V{};
    for (int64_t j = 0; j < d; ++j) {
      const V s0 = load<V>(panel + j * kLanes + lane);
      const V s1 = load<V>(panel + j * kLanes + lane + W);
      for (int r = 0; r < R; ++r) {
        const V x = broadcast<V>(query[j * R + r]);
        acc0[r] = add(acc0[r], x, s0, j);
        acc1[r] = add(acc1[r], x, s1, j);
      }
    }
    for (int r = 0; r < R; ++r) {
      store(out + r * kLanes + lane, acc0[r]);
      store(out + r * kLanes + lane + W, acc1[r]);
    }
  }
}

// Two sums over all features in one pass: `add(first, second, term vector, feature, row)`. As many
// vectors at a time as the registers hold sums of.
template <class T, int R, class Add>
inline void reduce_both(const T* panel, int64_t d, T* first, T* second, Add add) {
  using V = typename Simd<T>::Vec;
  constexpr int W = Simd<T>::width, N = R == 1 ? 4 : 1;
  for (int lane = 0; lane < kLanes; lane += N * W) {
    V a[N][R], b[N][R];
    for (int i = 0; i < N; ++i)
      for (int r = 0; r < R; ++r) a[i][r] = b[i][r] = V{};
    for (int64_t j = 0; j < d; ++j)
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

template <class T, int R>
inline void fill_statistics(Tile<T, R>& tile, const Group<T, R>& g, const T* panel, const T* norms,
                            Needs needs) {
  using V = typename Simd<T>::Vec;
  const T *q = g.q, *v = g.v, *width = g.width;
  const bool direct = needs.dist2 && !needs.dot && g.d <= kDirect;
  const bool product = needs.dot || (needs.dist2 && !direct);
  T* products = needs.dot ? tile.dot : tile.dist2;
  if (product && needs.dist1) {
    reduce_both<T, R>(panel, g.d, products, tile.dist1, [=](V& a, V& b, V s, int64_t j, int r) {
      a = a + q[j * R + r] * s;
      b = b + magnitude(s - v[j * R + r]) * width[j];
    });
  } else if (product) {
    reduce_features<T, R>(q, panel, g.d, products,
                          [](V acc, V x, V s, int64_t) { return acc + x * s; });
  } else if (direct && needs.dist1) {
    reduce_both<T, R>(panel, g.d, tile.dist2, tile.dist1, [=](V& a, V& b, V s, int64_t j, int r) {
      const V t = (s - v[j * R + r]) * width[j];
      a = a + t * t;
      b = b + magnitude(t);
    });
  } else if (direct) {
    reduce_features<T, R>(v, panel, g.d, tile.dist2, [width](V acc, V x, V s, int64_t j) {
      const V t = (x - s) * width[j];
      return acc + t * t;
    });
  } else if (needs.dist1) {
    reduce_features<T, R>(v, panel, g.d, tile.dist1, [width](V acc, V x, V s, int64_t j) {
      return acc + magnitude(x - s) * width[j];
    });
  }
  if (product) fill_distances(products, tile.dist2, g, norms);
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
    all[g].d = d;
    all[g].width = queries.width;
    all[g].q = memory.data + g * each;
    all[g].v = all[g].q + R * d;
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
