// A bank: several kernels over the same terms. What pairs of rows share (products, distances) is
// made once per tile; each kernel is one pass over that, each output one weighted sum.
#pragma once
#include <algorithm>

#include "api.hpp"
#include "rows.hpp"

namespace {

using onkel::Programs;

inline Needs needs_of_all(const Programs& programs) {
  Needs all;
  for (int64_t i = 0; i < programs.count; ++i) {
    const Needs n = needs_of(programs.of[i]);
    all.dot |= n.dot;
    all.dist2 |= n.dist2;
    all.dist1 |= n.dist1;
  }
  return all;
}

constexpr int64_t kBankFlush = 16;  // panels whose sums stay in the rows' own type

// Adds one panel to the sums of columns first ... last - 1, kept as vectors [column][row]; the
// kernel values come from `value(place in the tile)`, straight out of registers. Two rows share
// each load of a coefficient where there are registers for it.
template <class T, int R, class Value>
inline void add_some(const T* coef, int64_t first, int64_t last, typename Simd<T>::Vec* sums,
                     Value value) {
  using V = typename Simd<T>::Vec;
  constexpr int W = Simd<T>::width, N = kLanes / W, P = kBytes == 64 && R % 2 == 0 ? 2 : 1;
  for (int r = 0; r < R; r += P) {
    V k[P][N];
    for (int i = 0; i < P; ++i)
      for (int l = 0; l < N; ++l) k[i][l] = value((r + i) * kLanes + l * W);
    for (int64_t c = first; c < last; ++c) {
      V sum[P];
      for (int i = 0; i < P; ++i) sum[i] = sums[c * R + r + i];
      for (int l = 0; l < N; ++l) {
        const V a = load<V>(coef + c * kLanes + l * W);
        for (int i = 0; i < P; ++i) sum[i] = sum[i] + k[i][l] * a;
      }
      for (int i = 0; i < P; ++i) sums[c * R + r + i] = sum[i];
    }
  }
}

constexpr int64_t kFewColumns = 8;  // whose coefficients and sums stay in the first-level cache

// The same a few columns at a time; `value` leaves what it gives in `values`.
template <class T, int R, class Value>
inline void add_columns(const T* coef, int64_t first, int64_t last, typename Simd<T>::Vec* sums,
                        const T* values, Value value) {
  using V = typename Simd<T>::Vec;
  const auto upto = [last](int64_t c) { return std::min(c + kFewColumns, last); };
  add_some<T, R>(coef, first, upto(first), sums, value);
  for (int64_t c = upto(first); c < last; c = upto(c))
    add_some<T, R>(coef, c, upto(c), sums, [=](int at) { return load<V>(values + at); });
}

inline bool is_exponential(Program p) {
  return p.size == 1 && onkel::operation_of(p.nodes[0].op).exponential;
}

// How often the values of `before` must be squared to be those of `after`; -1: that is no way.
inline int squarings(Program before, Program after) {
  if (!is_exponential(before) || !is_exponential(after)) return -1;
  if (before.nodes[0].op != after.nodes[0].op) return -1;
  double a = before.nodes[0].a;
  for (int n = 1; n <= 4; ++n)
    if ((a *= 2) == after.nodes[0].a) return n;
  return -1;
}

// One kernel of the bank over one panel. exp(-4 u) is exp(-u) squared twice: widths that are
// powers of two apart need one exponential between them.
template <class T, int R>
inline void add_kernel(const Programs& programs, int64_t i, Tile<T, R>& tile, const T* coef,
                       typename Simd<T>::Vec* sums) {
  using V = typename Simd<T>::Vec;
  const Program program = programs.of[i];
  const int64_t first = i ? programs.ends[i - 1] : 0, last = programs.ends[i];
  T* values = tile.slot[0];
  const int squared = i ? squarings(programs.of[i - 1], program) : -1;
  if (squared > 0) {
    add_columns<T, R>(coef, first, last, sums, values, [=](int at) {
      V k = load<V>(values + at);
      for (int n = 0; n < squared; ++n) k = k * k;
      store(values + at, k);
      return k;
    });
  } else if (is_exponential(program)) {
    with_formula<T>(program.nodes[0], [&](auto op, auto formula) {
      if constexpr (op.row.exponential) {
        const T* dist = picked<op.row.reads>(tile.dot, tile.dist2, tile.dist1);
        add_columns<T, R>(coef, first, last, sums, values, [=](int at) {
          const V k = formula(load<V>(dist + at));
          store(values + at, k);
          return k;
        });
      }
    });
  } else {
    evaluate<T, R>(tile, program);
    add_columns<T, R>(coef, first, last, sums, values,
                      [=](int at) { return load<V>(values + at); });
  }
}

// The kernel values themselves, left in slot 0.
template <class T, int R>
inline void fill_values(const Programs& programs, int64_t i, Tile<T, R>& tile) {
  using V = typename Simd<T>::Vec;
  const int squared = i ? squarings(programs.of[i - 1], programs.of[i]) : -1;
  if (squared < 0) {
    evaluate<T, R>(tile, programs.of[i]);
    return;
  }
  map_tile<T, R * kLanes>(tile.slot[0], tile.slot[0], [=](V k) {
    for (int n = 0; n < squared; ++n) k = k * k;
    return k;
  });
}

// Vectors [group][column][row] where sums are kept, with the alignment that vectors want and
// calloc does not promise.
template <class T, int R>
struct BankSums {
  using V = typename Simd<T>::Vec;
  BankSums(int64_t columns, int groups)
      : room(columns * R * groups * static_cast<int64_t>(sizeof(V)) + 64),
        at(reinterpret_cast<V*>((reinterpret_cast<uintptr_t>(room.data) + 63) / 64 * 64)) {}
  Memory<char> room;
  V* at;
};

// Sums of up to `rows` rows in groups of R over all panels, added to out[row][column]. A panel
// meets all groups while it is near.
template <class T, int R>
inline void bank_groups(const Programs& programs, const Needs& needs, const Group<T, R>* groups,
                        int64_t rows, const Panels<T>& panels, const T* coef, int64_t columns,
                        Tile<T, R>& tile, typename Simd<T>::Vec* sums, double* out) {
  const int64_t count = (rows + R - 1) / R;
  for (int64_t p = 0; p < panels.used; ++p) {
    const int64_t panel = (panels.first + p) % panels.capacity;
    for (int64_t g = 0; g < count; ++g) {
      fill_statistics<T, R>(tile, groups[g], panels.values + panel * groups[g].d * kLanes,
                            panels.norms + panel * kLanes, needs);
      for (int64_t i = 0; i < programs.count; ++i)
        add_kernel<T, R>(programs, i, tile, coef + panel * columns * kLanes,
                         sums + g * columns * R);
    }
    if ((p + 1) % kBankFlush && p + 1 < panels.used) continue;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t c = 0; c < columns; ++c)
        out[row * columns + c] += sum_lanes<T>(sums[(row / R * columns + c) * R + row % R]);
    std::fill_n(sums, count * columns * R, typename Simd<T>::Vec{});
  }
}

constexpr int kBankGroups = 4;  // groups of rows that meet a panel together

template <class T, int R>
inline void bank_rows(const Programs& programs, const Queries<T>& queries, const Panels<T>& panels,
                      const T* coef, int64_t columns, int64_t first, int64_t last, double* out) {
  Tile<T, R> tile;
  Memory<T> memory(2 * R * queries.d * kBankGroups);
  BankSums<T, R> sums(columns, kBankGroups);
  Group<T, R> groups[kBankGroups];
  for (int g = 0; g < kBankGroups; ++g)
    groups[g] = group_in<T, R>(memory.data + 2 * g * R * queries.d, queries);
  const Needs needs = needs_of_all(programs);
  for (int64_t row = first; row < last; row += kBankGroups * R) {
    const int64_t rows = std::min<int64_t>(kBankGroups * R, last - row);
    for (int64_t g = 0; g * R < rows; ++g) fill_group(groups[g], queries, row + g * R);
    bank_groups<T, R>(programs, needs, groups, rows, panels, coef, columns, tile, sums.at,
                      out + row * columns);
  }
}

// out[row][column] = sum over terms of coef[panel][column][lane] * k(row, term), k the kernel of
// that column.
template <class T>
void bank_sums(Programs programs, Queries<T> queries, Panels<T> panels, const T* coef,
               int64_t columns, double* out) {
  const int64_t rest = queries.rows % kTile, full = queries.rows - (rest == 1);
  std::fill_n(out, queries.rows * columns, 0.0);
  bank_rows<T, kTile>(programs, queries, panels, coef, columns, 0, full, out);
  if (rest == 1) bank_rows<T, 1>(programs, queries, panels, coef, columns, full, queries.rows, out);
}

// out[kernel][row][term] = k(row, term) for the first `terms` terms; each row up to itself only, as
// the steps want it (the rows are the terms), and to the end of its panel.
template <class T>
void bank_matrix(Programs programs, Queries<T> queries, Panels<T> panels, int64_t terms,
                 double* out) {
  constexpr int R = kTile;
  Tile<T, R> tile;
  Memory<T> memory(2 * R * queries.d);
  Group<T, R> g = group_in<T, R>(memory.data, queries);
  const Needs needs = needs_of_all(programs);
  for (int64_t row = 0; row < queries.rows; row += R) {
    fill_group(g, queries, row);
    const int64_t rows = std::min<int64_t>(R, queries.rows - row);
    for (int64_t p = 0; p * kLanes < row + rows; ++p) {
      fill_statistics<T, R>(tile, g, panels.values + p * g.d * kLanes, panels.norms + p * kLanes,
                            needs);
      const int64_t width = std::min<int64_t>(kLanes, terms - p * kLanes);
      for (int64_t i = 0; i < programs.count; ++i) {
        fill_values<T, R>(programs, i, tile);
        double* to = out + (i * queries.rows + row) * terms + p * kLanes;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t l = 0; l < width; ++l)
            to[r * terms + l] = static_cast<double>(tile.slot[0][r * kLanes + l]);
      }
    }
  }
}

}  // namespace
