// A tile of rows against the stored terms and against itself, from the features through the
// kernel to the weighted sum without leaving registers where the kernel allows it.
#pragma once
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "api.hpp"
#include "rows.hpp"

namespace {

using onkel::Lane;

template <class T>
inline int64_t slot_of(const Lane<T>& k, int64_t i) {
  const int64_t slot = k.head + i, slots = k.capacity * kLanes;  // a division would cost more
  return slot < slots ? slot : slot - slots;
}

// A tile of rows, [feature][row] as the sums want them: one load serves a broadcast each.
template <class T, int R>
struct RowTile {
  T *q, *v;  // [room_for<R>(d)][R]
  T off[R] = {}, norm[R] = {};
  double diag[R] = {};
};

// Features, rounded up to whole square tiles.
template <int R>
inline int64_t room_for(int64_t d) {
  return (d + R - 1) / R * R;
}

// Where rows lie one after another before they are laid side by side.
template <class T, int R>
struct Rows {
  const double* limit;  // [d]
  T *q, *v;             // [R][room_for<R>(d)], beyond d anything
};

template <class Row, size_t... I>
inline void interleave(Row a, Row b, Row& low, Row& high, std::index_sequence<I...>) {
  constexpr size_t R = sizeof...(I);
  low = __builtin_shufflevector(a, b, static_cast<int>(I / 2 + I % 2 * R)...);
  high = __builtin_shufflevector(a, b, static_cast<int>((R + I) / 2 + I % 2 * R)...);
}

// Makes columns of rows: [R][room] to [room][R], square by square. Interleaving the first half of
// a square's rows with the second, log2 R times, transposes it.
template <class T, int R>
inline void transpose(const T* rows, int64_t room, T* out) {
  typedef T Row __attribute__((vector_size(R * sizeof(T))));
  for (int64_t j = 0; j < room; j += R) {
    Row a[R], b[R];
    for (int i = 0; i < R; ++i) a[i] = load<Row>(rows + i * room + j);
    for (int round = 1; round < R; round *= 2) {
      for (int i = 0; i < R / 2; ++i)
        interleave(a[i], a[i + R / 2], b[2 * i], b[2 * i + 1], std::make_index_sequence<R>());
      for (int i = 0; i < R; ++i) a[i] = b[i];
    }
    for (int i = 0; i < R; ++i) store(out + (j + i) * R, a[i]);
  }
}

template <class To, class From>
inline To converted(From x) {
  if constexpr (std::is_arithmetic_v<From>)
    return static_cast<To>(x);
  else
    return __builtin_convertvector(x, To);
}

// The squared length of a row's features, and what its dot products lack.
template <class V>
struct Lengths {
  V square = V{}, off = V{};
};

// Features j, j + 1, ... of a row, as many as V holds: v = (x - center) unit, kept so small that
// differences of far values stay finite, and q = width^2 (v - shift).
template <class V, class N, class T>
inline void take_features(const Lane<T>& k, const T* x, const double* limit, int64_t j, T* q, T* v,
                          Lengths<V>& sums) {
  V at = converted<V>(load<N>(x + j));
  if (limit) at = (at - load<V>(k.center + j)) * load<V>(k.unit + j);
  if (limit && k.invariant) {
    const V most = load<V>(limit + j);
    at = larger(at, -most);
    at = at > most ? most : at;
  }
  const V width = load<V>(k.width + j), shift = load<V>(k.shift + j), z = width * (at - shift);
  sums.square = sums.square + z * z;
  sums.off = sums.off - z * width * shift;
  store(v + j, converted<N>(at));
  store(q + j, converted<N>(z * width));
}

// Takes row i of the tile; without limits it is in coordinates of the frame already.
template <class T, int R>
inline void take_row(const Lane<T>& k, int64_t i, const T* x, const double* limit,
                     const Rows<T, R>& at, RowTile<T, R>& h) {
  constexpr int W = Simd<double>::width;
  typedef T Part __attribute__((vector_size(W * sizeof(T))));
  T *q = at.q + i * room_for<R>(k.d), *v = at.v + i * room_for<R>(k.d);
  Lengths<VecD> many;
  Lengths<double> rest;
  int64_t j = 0;
  for (; j < k.codes; ++j) q[j] = v[j] = x[j];
  rest.square = k.alike;
  for (; j + W <= k.d; j += W) take_features<VecD, Part>(k, x, limit, j, q, v, many);
  for (; j < k.d; ++j) take_features<double, T>(k, x, limit, j, q, v, rest);
  if (!k.invariant) h.off[i] = static_cast<T>(sum_lanes<double>(many.off) + rest.off);
  h.norm[i] = static_cast<T>(sum_lanes<double>(many.square) + rest.square);
  h.diag[i] = evaluate_one(k.program, static_cast<double>(h.norm[i]), 0, 0);
}

// Lays n rows side by side; those that are missing are 0.
template <class T, int R>
inline void side_by_side(const Lane<T>& k, int64_t n, const Rows<T, R>& at, RowTile<T, R>& h) {
  const int64_t room = room_for<R>(k.d);
  std::fill(at.q + n * room, at.q + R * room, T(0));
  std::fill(at.v + n * room, at.v + R * room, T(0));
  transpose<T, R>(at.q, room, h.q);
  transpose<T, R>(at.v, room, h.v);
}

// Takes n rows as they came, from `start` on; false if one of them is too large, or has no codes
// where they should be.
template <class T, int R>
inline bool take_rows(const Lane<T>& k, int64_t start, int64_t n, const Rows<T, R>& at,
                      RowTile<T, R>& h) {
  for (int64_t i = 0; i < n; ++i) {
    const T* x = k.x + (start + i) * k.d;
    take_row(k, i, x, at.limit, at, h);
    if (!std::isfinite(h.diag[i]) || !have_codes(x, 1, k.d, k.codes)) return false;
  }
  side_by_side(k, n, at, h);
  return true;
}

// Takes n of the stored terms, from the `start`-th oldest on, as if they were rows.
template <class T, int R>
inline void take_terms(const Lane<T>& k, int64_t start, int64_t n, const Rows<T, R>& at,
                       RowTile<T, R>& h) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t slot = slot_of(k, start + i);
    const T* term = k.panels + slot / kLanes * k.d * kLanes + slot % kLanes;
    T* row = at.v + i * room_for<R>(k.d);
    for (int64_t j = 0; j < k.d; ++j) row[j] = term[j * kLanes];
    take_row<T, R>(k, i, row, nullptr, at, h);
  }
  side_by_side(k, n, at, h);
}

// What one tile's rows and another's have between them, [R][R] from lane 0 of the tile on.
template <class T, int R>
inline void compare(const Lane<T>& k, const Needs& needs, const RowTile<T, R>& h,
                    const RowTile<T, R>& o, Tile<T, 1>& tile) {
  static_assert(R * R <= kLanes);
  typedef T Row __attribute__((vector_size(R * sizeof(T))));
  const bool direct = needs.dist2 && !needs.dot && k.d - k.codes <= kDirect;
  Row agree[R];  // half of what codes would be apart where they agree
  for (int i = 0; i < R; ++i) agree[i] = Row{};
  T all = 0;
  for (int64_t f = 0; f < k.codes; ++f) {
    const Row other = load<Row>(o.v + f * R);
    const T half = k.width_t[f] * T(0.5);
    all += half;
    for (int i = 0; i < R; ++i)
      agree[i] = plus_where(agree[i], broadcast<Row>(h.v[f * R + i]) == other, half);
  }
  if (needs.dot || (needs.dist2 && !direct)) {
    Row dot[R];
    for (int i = 0; i < R; ++i) dot[i] = agree[i];
    for (int64_t f = k.codes; f < k.d; ++f) {
      const Row other = load<Row>(o.v + f * R);
      for (int i = 0; i < R; ++i) dot[i] = dot[i] + h.q[f * R + i] * other;
    }
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < R; ++j) {
        const T product = dot[i][j] + h.off[i], apart = h.norm[i] + o.norm[j] - 2 * product;
        tile.dot[i * R + j] = product;
        tile.dist2[i * R + j] = apart > 0 ? apart : 0;
      }
  }
  if (direct || needs.dist1) {
    T dist2[R][R], dist1[R][R];
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < R; ++j) dist1[i][j] = dist2[i][j] = 2 * (all - agree[i][j]);
    for (int64_t f = k.codes; f < k.d; ++f)
      for (int i = 0; i < R; ++i)
        for (int j = 0; j < R; ++j) {
          const T gap = (h.v[f * R + i] - o.v[f * R + j]) * k.width_t[f];
          dist1[i][j] += std::fabs(gap);
          dist2[i][j] += gap * gap;
        }
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < R; ++j) {
        if (direct) tile.dist2[i * R + j] = dist2[i][j];
        tile.dist1[i * R + j] = dist1[i][j];
      }
  }
}

// k of one tile's rows at another's, laid out in the same way.
template <class T, int R>
inline const T* among(const Lane<T>& k, const Needs& needs, const RowTile<T, R>& h,
                      const RowTile<T, R>& o, Tile<T, 1>& tile) {
  compare<T, R>(k, needs, h, o, tile);
  evaluate<T, 1>(tile, k.program);
  return tile.slot[0];
}

// A tile's rows as sums over panels take them.
template <class T, int R>
inline Group<T, R> group_of(const Lane<T>& k, const RowTile<T, R>& h) {
  Group<T, R> g;
  g.q = h.q;
  g.v = h.v;
  for (int r = 0; r < R; ++r) {
    g.off[r] = h.off[r];
    g.norm[r] = h.norm[r];
  }
  g.width = k.width_t;
  g.d = k.d;
  g.codes = k.codes;
  return g;
}

// How many panels hold terms.
template <class T>
inline int64_t used_panels(const Lane<T>& k) {
  return std::min((k.head % kLanes + k.count + kLanes - 1) / kLanes, k.capacity);
}

// Calls visit(panel, kernel values [R][kLanes]) for every panel that holds terms.
template <class T, int R, class Visit>
inline void over_panels(const Lane<T>& k, const Needs& needs, RowTile<T, R>& h, Tile<T, R>& tile,
                        Visit visit) {
  const Group<T, R> g = group_of(k, h);
  const int64_t used = used_panels(k);
  for (int64_t p = 0; p < used; ++p) {
    const int64_t panel = (k.head / kLanes + p) % k.capacity;
    fill_statistics<T, R>(tile, g, k.panels + panel * k.d * kLanes, k.norms + panel * kLanes,
                          needs);
    evaluate<T, R>(tile, k.program);
    visit(p, panel, tile.slot[0]);
  }
}

// Where one tile of n rows puts its sums, and its kernel values at the `old` terms.
struct Part {
  int64_t n, old, stride;
  double *base, *kernel;
};

// Copies kernel values at the oldest terms, which stand in the first two panels.
template <class T>
inline void note_oldest(const Lane<T>& k, int64_t panel, const T* values, Part part) {
  for (int64_t j = 0; j < part.old; ++j) {
    const int64_t slot = slot_of(k, j);
    if (slot / kLanes != panel) continue;
    for (int64_t i = 0; i < part.n; ++i)
      part.kernel[i * part.stride + j] = static_cast<double>(values[i * kLanes + slot % kLanes]);
  }
}

// One panel in registers from the features to the weighted sum: `value(acc, row, lane)` is the
// kernel. Values are written down only where `keep` is given.
template <class T, int R, class Code, class Add, class Value>
inline void fused_panel(const Lane<T>& k, const T* query, const T* panel, const T* weights,
                        typename Simd<T>::Vec* sums, T* keep, Code code, Add add, Value value) {
  using V = typename Simd<T>::Vec;
  constexpr int W = Simd<T>::width;
  const int64_t codes = k.codes, d = k.d;
  for (int lane = 0; lane < kLanes; lane += 2 * W) {
    V acc0[R], acc1[R];
    for (int r = 0; r < R; ++r) acc0[r] = acc1[r] = V{};
    add_both<T, R>(query, panel + lane, codes, d, acc0, acc1, code, add);
    const V w0 = load<V>(weights + lane), w1 = load<V>(weights + lane + W);
    for (int r = 0; r < R; ++r) {
      const V k0 = value(acc0[r], r, lane), k1 = value(acc1[r], r, lane + W);
      sums[r] = sums[r] + k0 * w0;
      sums[r] = sums[r] + k1 * w1;
      if (keep) {
        store(keep + r * kLanes + lane, k0);
        store(keep + r * kLanes + lane + W, k1);
      }
    }
  }
}

constexpr int64_t kFlush = 16;  // panels whose sums stay in the rows' own type

// One output under a kernel of one operation: sums over the terms that stay.
template <class T, int R, class Code, class Add, class Value>
inline void fused_sums(const Lane<T>& k, const T* query, T* keep, Part part, Code code, Add add,
                       Value value) {
  using V = typename Simd<T>::Vec;
  const int64_t used = used_panels(k);
  V sums[R];
  for (int r = 0; r < R; ++r) sums[r] = V{};
  for (int64_t p = 0; p < used; ++p) {
    const int64_t panel = (k.head / kLanes + p) % k.capacity;
    const bool first = p < 2 && part.old > 0;
    fused_panel<T, R>(k, query, k.panels + panel * k.d * kLanes, k.weights + panel * kLanes, sums,
                      first ? keep : nullptr, code, add, value(k.norms + panel * kLanes));
    if (first) note_oldest(k, panel, keep, part);
    if ((p + 1) % kFlush && p + 1 < used) continue;
    for (int64_t i = 0; i < part.n; ++i) part.base[i] += sum_lanes<T>(sums[i]);
    for (int r = 0; r < R; ++r) sums[r] = V{};
  }
}

// The same, what the kernel reads being made feature by feature.
template <class T, int R, Reads reads, bool Coded, class Formula>
inline void sums_of_one(const Lane<T>& k, const RowTile<T, R>& h, T* keep, Part part,
                        Formula formula) {
  using V = typename Simd<T>::Vec;
  const T* width = k.width_t;
  const Agree<T, Coded> agree{width};
  const Differ<T, Coded> differ{width};
  const auto product = [](V acc, V x, V s, int64_t) { return acc + x * s; };
  const auto plain = [formula](const T*) {
    return [formula](V x, int, int) { return formula(x); };
  };
  if constexpr (reads == Reads::kDot) {
    fused_sums<T, R>(k, h.q, keep, part, agree, product, [formula, &h](const T*) {
      return [formula, &h](V dot, int r, int) { return formula(dot + h.off[r]); };
    });
  } else if constexpr (reads == Reads::kDist1) {
    const auto gap = [width](V acc, V x, V s, int64_t j) {
      return acc + magnitude(x - s) * width[j];
    };
    fused_sums<T, R>(k, h.v, keep, part, differ, gap, plain);
  } else if (k.d - k.codes <= kDirect) {
    const auto square = [width](V acc, V x, V s, int64_t j) {
      const V t = (x - s) * width[j];
      return acc + t * t;
    };
    fused_sums<T, R>(k, h.v, keep, part, differ, square, plain);
  } else {
    fused_sums<T, R>(k, h.q, keep, part, agree, product, [formula, &h](const T* norms) {
      return [formula, &h, norms](V dot, int r, int lane) {
        dot = dot + h.off[r];
        const V d2 = load<V>(norms + lane) + h.norm[r] - (dot + dot);
        return formula(larger(d2, V{}));
      };
    });
  }
}

// The same for the kernels that people use most; false for others.
template <class T, int R>
inline bool simple_sums(const Lane<T>& k, const RowTile<T, R>& h, T* keep, Part part) {
  if (k.program.size != 1 || k.columns != 1) return false;
  bool simple = false;
  with_formula<T>(k.program.nodes[0], [&](auto op, auto formula) {
    if constexpr (op.row.exponential || op.value == Op::kLinear) {
      if (k.codes)
        sums_of_one<T, R, op.row.reads, true>(k, h, keep, part, formula);
      else
        sums_of_one<T, R, op.row.reads, false>(k, h, keep, part, formula);
      simple = true;
    }
  });
  return simple;
}

// Sums over the terms that stay, and kernel values at the `old` ones that may go.
template <class T, int R>
inline void against_terms(const Lane<T>& k, const Needs& needs, RowTile<T, R>& h, Tile<T, R>& tile,
                          Part part) {
  using V = typename Simd<T>::Vec;
  constexpr int W = Simd<T>::width;
  const int64_t columns = k.columns;
  for (int64_t i = 0; i < part.n * columns; ++i) part.base[i] = 0;
  if (!simple_sums<T, R>(k, h, tile.slot[0], part))
    over_panels<T, R>(k, needs, h, tile, [&](int64_t p, int64_t panel, const T* values) {
      for (int64_t i = 0; i < part.n; ++i)
        for (int64_t c = 0; c < columns; ++c) {
          const T* a = k.weights + (panel * columns + c) * kLanes;
          V sum = load<V>(values + i * kLanes) * load<V>(a);
          for (int l = W; l < kLanes; l += W)
            sum = sum + load<V>(values + i * kLanes + l) * load<V>(a + l);
          part.base[i * columns + c] += sum_lanes<T>(sum);
        }
      if (p < 2) note_oldest(k, panel, values, part);
    });
  for (int64_t i = 0; i < part.n; ++i)
    for (int64_t c = 0; c < columns; ++c)
      part.base[i * columns + c] *= k.state[c * onkel::kFields + onkel::kFieldScale];
}

}  // namespace
