// The fast lane: rows learned in place, a few at a time, while nothing unusual happens. For each
// handful of rows: sums over the stored terms, the handful against itself and against the terms it
// may push out, the scalar steps, then the terms are written. What a handful cannot do (a wipe, a
// norm that cancelled, a step that is not finite) is left undone for the caller, who has the
// general path (onkel/learner/terms.py).
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "api.hpp"
#include "rows.hpp"
#include "steps.hpp"

namespace {

using onkel::Lane;

constexpr int64_t kMostOld = 64;      // terms that a handful of rows may push out
constexpr int kGroups = 4;            // tiles of rows at a time, where there is much to sum
constexpr int64_t kShared = 1 << 19;  // from so many stored numbers on
constexpr double kFold = 1e-3;        // a global scale below this is folded into the coefficients

// One value of a kernel, in double precision.
inline double evaluate_one(Program program, double dot, double dist2, double dist1) {
  double stack[onkel::kMaxDepth] = {};
  int top = -1;
  for (int i = 0; i < program.size; ++i) {
    const Node node = program.nodes[i];
    const double s = node.a * std::sqrt(dist2);
    switch (node.op) {
      case onkel::kGaussian:
        stack[++top] = std::exp(-node.a * dist2);
        break;
      case onkel::kLaplacian:
        stack[++top] = std::exp(-node.a * dist1);
        break;
      case onkel::kMatern32:
        stack[++top] = (1 + s) * std::exp(-s);
        break;
      case onkel::kMatern52:
        stack[++top] = (1 + s + s * s / 3) * std::exp(-s);
        break;
      case onkel::kLinear:
        stack[++top] = dot;
        break;
      case onkel::kPolynomial:
        stack[++top] = std::pow(node.a * dot + node.b, node.c);
        break;
      case onkel::kScale:
        stack[top] *= node.a;
        break;
      default:
        stack[top - 1] =
            node.op == onkel::kSum ? stack[top - 1] + stack[top] : stack[top - 1] * stack[top];
        --top;
    }
  }
  return stack[0];
}

// v = (x - center) unit, kept so small that differences of far values stay finite.
template <class T>
inline void coordinates(const Lane<T>& k, const T* x, const double* limit, double* v) {
  for (int64_t j = 0; j < k.d; ++j) v[j] = (static_cast<double>(x[j]) - k.center[j]) * k.unit[j];
  if (k.invariant)
    for (int64_t j = 0; j < k.d; ++j) {
      const double low = v[j] < -limit[j] ? -limit[j] : v[j];
      v[j] = low > limit[j] ? limit[j] : low;
    }
}

template <class T>
inline int64_t slot_of(const Lane<T>& k, int64_t i) {
  const int64_t slot = k.head + i, slots = k.capacity * kLanes;  // a division would cost more
  return slot < slots ? slot : slot - slots;
}

// How many of the oldest terms these rows may push out.
template <class T>
inline int64_t droppable(const Lane<T>& k, int64_t start, int64_t n) {
  const int64_t oldest = k.oldest[start + n - 1];
  int64_t old = std::max<int64_t>(k.count + n - k.cap, 0);
  while (old < k.count && old <= kMostOld && k.births[slot_of(k, old)] < oldest) ++old;
  return std::min(old, k.count);
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
  k.count -= n;
  if (k.count == 0) k.head = 0;
}

// A handful of rows, [feature][row] as the sums want them: one load serves a broadcast each.
template <class T, int R>
struct Hand {
  T *q, *v;  // [d][R]
  T off[R] = {}, norm[R] = {};
  double diag[R] = {};
};

// Writes the rows that were kept behind the terms there are.
template <class T, int R>
inline void store_terms(Lane<T>& k, const Hand<T, R>& h, int64_t n, const uint8_t* kept,
                        const double* coef, int64_t first_trial) {
  const int64_t first = slot_of(k, k.count), lane = first % kLanes;
  bool together = lane + n <= kLanes;
  for (int64_t i = 0; i < n; ++i) together &= kept[i];
  T* values = k.panels + first / kLanes * k.d * kLanes + lane;
  if (together)
    for (int64_t j = 0; j < k.d; ++j)
      for (int64_t i = 0; i < n; ++i) values[j * kLanes + i] = h.v[j * R + i];
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

template <class T, int R>
inline bool take_rows(const Lane<T>& k, int64_t start, int64_t n, const double* limit, double* v,
                      Hand<T, R>& h) {
  for (int64_t i = 0; i < R; ++i) {
    if (i >= n) {
      for (int64_t j = 0; j < k.d; ++j) h.q[j * R + i] = h.v[j * R + i] = 0;
      continue;
    }
    coordinates(k, k.x + (start + i) * k.d, limit, v);
    VecD length = VecD{};
    constexpr int W = Simd<double>::width;
    double* z = v + k.d;  // room for a vector beyond the last feature, which stays 0
    for (int64_t j = 0; j < k.d; ++j) z[j] = k.width[j] * (v[j] - k.shift[j]);
    for (int64_t j = k.d; j % W; ++j) z[j] = 0;
    for (int64_t j = 0; j < k.d; j += W) length = length + load<VecD>(z + j) * load<VecD>(z + j);
    for (int64_t j = 0; j < k.d; ++j) {
      h.v[j * R + i] = static_cast<T>(v[j]);
      z[j] *= k.width[j];
      h.q[j * R + i] = static_cast<T>(z[j]);
    }
    if (!k.invariant) {
      double sum = 0;
      for (int64_t j = 0; j < k.d; ++j) sum -= z[j] * k.shift[j];
      h.off[i] = static_cast<T>(sum);
    }
    h.norm[i] = static_cast<T>(sum_lanes<double>(length));
    h.diag[i] = evaluate_one(k.program, static_cast<double>(h.norm[i]), 0, 0);
    if (!std::isfinite(h.diag[i])) return false;
  }
  return true;
}

// k of one handful's rows at another's, [R][R] from lane 0 of the tile on.
template <class T, int R>
inline const T* among(const Lane<T>& k, const Needs& needs, const Hand<T, R>& h,
                      const Hand<T, R>& o, Tile<T, 1>& tile) {
  static_assert(R * R <= kLanes);
  typedef T Row __attribute__((vector_size(R * sizeof(T))));
  const bool direct = needs.dist2 && !needs.dot && k.d <= kDirect;
  if (needs.dot || (needs.dist2 && !direct)) {
    Row dot[R];
    for (int i = 0; i < R; ++i) dot[i] = Row{};
    for (int64_t f = 0; f < k.d; ++f) {
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
    T dist2[R][R] = {}, dist1[R][R] = {};
    for (int64_t f = 0; f < k.d; ++f)
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
  evaluate<T, 1>(tile, k.program);
  return tile.slot[0];
}

// Calls visit(panel, kernel values [R][kLanes]) for every panel that holds terms.
template <class T, int R, class Visit>
inline void over_panels(const Lane<T>& k, const Needs& needs, Hand<T, R>& h, Tile<T, R>& tile,
                        Visit visit) {
  Group<T, R> g;
  g.q = h.q;
  g.v = h.v;
  for (int r = 0; r < R; ++r) {
    g.off[r] = h.off[r];
    g.norm[r] = h.norm[r];
  }
  g.width = k.width_t;
  g.d = k.d;
  const int64_t used = std::min((k.head % kLanes + k.count + kLanes - 1) / kLanes, k.capacity);
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
template <class T, int R, class Add, class Value>
inline void fused_panel(const T* query, const T* panel, int64_t d, const T* weights,
                        typename Simd<T>::Vec* sums, T* keep, Add add, Value value) {
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
template <class T, int R, class Add, class Value>
inline void fused_sums(const Lane<T>& k, const T* query, T* keep, Part part, Add add, Value value) {
  using V = typename Simd<T>::Vec;
  const int64_t used = std::min((k.head % kLanes + k.count + kLanes - 1) / kLanes, k.capacity);
  V sums[R];
  for (int r = 0; r < R; ++r) sums[r] = V{};
  for (int64_t p = 0; p < used; ++p) {
    const int64_t panel = (k.head / kLanes + p) % k.capacity;
    const bool first = p < 2 && part.old > 0;
    fused_panel<T, R>(query, k.panels + panel * k.d * kLanes, k.d, k.weights + panel * kLanes, sums,
                      first ? keep : nullptr, add, value(k.norms + panel * kLanes));
    if (first) note_oldest(k, panel, keep, part);
    if ((p + 1) % kFlush && p + 1 < used) continue;
    for (int64_t i = 0; i < part.n; ++i) part.base[i] += sum_lanes<T>(sums[i]);
    for (int r = 0; r < R; ++r) sums[r] = V{};
  }
}

// The same for the kernels that people use most; false for others.
template <class T, int R>
inline bool simple_sums(const Lane<T>& k, const Hand<T, R>& h, T* keep, Part part) {
  using V = typename Simd<T>::Vec;
  if (k.program.size != 1 || k.columns != 1) return false;
  const Node node = k.program.nodes[0];
  const T a = T(node.a);
  const T* width = k.width_t;
  const auto product = [](V acc, V x, V s, int64_t) { return acc + x * s; };
  const auto square = [width](V acc, V x, V s, int64_t j) {
    const V t = (x - s) * width[j];
    return acc + t * t;
  };
  const auto gap = [width](V acc, V x, V s, int64_t j) {
    return acc + magnitude(x - s) * width[j];
  };
  if (node.op == onkel::kGaussian && k.d <= kDirect) {
    fused_sums<T, R>(k, h.v, keep, part, square,
                     [a](const T*) { return [a](V d2, int, int) { return vexp(-a * d2); }; });
  } else if (node.op == onkel::kGaussian) {
    fused_sums<T, R>(k, h.q, keep, part, product, [a, &h](const T* norms) {
      return [a, &h, norms](V dot, int r, int lane) {
        dot = dot + h.off[r];
        const V d2 = load<V>(norms + lane) + h.norm[r] - (dot + dot);
        return vexp(-a * larger(d2, V{}));
      };
    });
  } else if (node.op == onkel::kLaplacian) {
    fused_sums<T, R>(k, h.v, keep, part, gap,
                     [a](const T*) { return [a](V d1, int, int) { return vexp(-a * d1); }; });
  } else if (node.op == onkel::kLinear) {
    fused_sums<T, R>(k, h.q, keep, part, product,
                     [&h](const T*) { return [&h](V dot, int r, int) { return dot + h.off[r]; }; });
  } else {
    return false;
  }
  return true;
}

// Sums over the terms that stay, and kernel values at the `old` ones that may go.
template <class T, int R>
inline void against_terms(const Lane<T>& k, const Needs& needs, Hand<T, R>& h, Tile<T, R>& tile,
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

// What a block of up to kGroups tiles needs, allocated once per call.
template <class T, int R>
struct Scratch {
  static constexpr int64_t rows = kGroups * R, most = kMostOld + rows;
  explicit Scratch(const Lane<T>& k)
      : reals(2 * rows * k.d),
        numbers(3 * k.d + 16 + most + rows * most +
                (2 * rows + kMostOld + onkel::kFields) * k.columns),
        whole(kMostOld + 2 * rows),
        flags(2 * rows + k.columns) {
    std::memset(&own, 0, sizeof own);  // lanes that no pair fills are looked at all the same
    for (int64_t j = 0; j < k.d; ++j) numbers.data[j] = k.clip / k.width[j];
    for (int g = 0; g < kGroups; ++g) {
      hands[g].q = reals.data + 2 * g * R * k.d;
      hands[g].v = hands[g].q + R * k.d;
    }
  }
  Memory<T> reals;
  Memory<double> numbers;
  Memory<int64_t> whole;
  Memory<uint8_t> flags;
  Hand<T, R> hands[kGroups];
  Tile<T, R> tiles[kGroups];
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
  in.cap = at.cap;
  in.hosts = at.hosts;
  in.oldest = k.oldest + start;
  in.loss = k.loss;
  in.rule = k.rule;
  in.intercept = k.intercept;
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
  at.diag = memory.numbers.data + 3 * k.d + 16;
  at.kernel = at.diag + all;
  at.base = at.kernel + n * all;
  at.old_coef = at.base + n * columns;
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

// Learns rows start ... start + n - 1; false if that is left to the caller, nothing changed.
template <class T, int R, class Share>
inline bool learn_block(Lane<T>& k, Scratch<T, R>& memory, int64_t start, int64_t n, Share share) {
  const int64_t columns = k.columns, old = droppable(k, start, n), all = old + n;
  if (old > kMostOld || std::min(k.count + n, k.cap) > k.capacity * kLanes) return false;
  const int groups = static_cast<int>((n + R - 1) / R);
  const Numbers at = numbers_of<T, R>(k, memory, n, old);
  const auto size = [n](int g) { return std::min<int64_t>(R, n - g * R); };
  for (int g = 0; g < groups; ++g)
    if (!take_rows<T, R>(k, start + g * R, size(g), memory.numbers.data, memory.numbers.data + k.d,
                         memory.hands[g]))
      return false;
  const Needs needs = needs_of(k.program);
  set_aside(k, at, old);
  share(groups, [&](int g) {
    against_terms<T, R>(k, needs, memory.hands[g], memory.tiles[g],
                        {size(g), old, all, at.base + g * R * columns, at.kernel + g * R * all});
  });
  if (n == 1) at.kernel[old] = memory.hands[0].diag[0];
  for (int g = 0; n > 1 && g < groups; ++g)
    for (int o = 0; o <= g; ++o) {
      const T* own = among<T, R>(k, needs, memory.hands[g], memory.hands[o], memory.own);
      for (int64_t i = 0; i < size(g); ++i)
        for (int64_t j = 0; j < size(o); ++j)
          at.kernel[(g * R + i) * all + old + o * R + j] = static_cast<double>(own[i * R + j]);
    }
  for (int64_t i = 0; i < n; ++i) {
    at.diag[old + i] = memory.hands[i / R].diag[i % R];
    at.cap[i] = k.cap;
    at.hosts[i] = onkel::kNone;
    at.kept[i] = at.merged[i] = 0;
  }
  std::copy_n(k.state, columns * onkel::kFields, at.state);
  const StepOutput out = run_steps(k, at, start, n, old);
  bool clean = out.bad_row < 0 && out.done == n;
  for (int64_t c = 0; c < columns; ++c) clean &= !at.wiped[c];
  for (int64_t i = clean ? out.dropped : 0; i < old; ++i) set_weights(k, slot_of(k, i), true);
  if (!clean) return false;
  drop_terms(k, out.dropped);
  std::copy_n(at.state, columns * onkel::kFields, k.state);
  std::copy_n(at.kept, n, k.kept + start);
  for (int g = 0; g < groups; ++g)
    store_terms<T, R>(k, memory.hands[g], size(g), at.kept + g * R, at.coef + g * R * columns,
                      k.first_trial + start + g * R);
  return true;
}

// Threads that take tiles, in the time of one call. The caller's own takes them too, and waits only
// for those that another has begun: a thread that gets no processor costs nothing.
class Team {
 public:
  explicit Team(int threads) {
    try {
      for (int i = 1; i < threads; ++i) team_.emplace_back([this] { wait(); });
    } catch (const std::system_error&) {  // no more to be had: those there are do it all
    }
  }
  ~Team() {
    stop_.store(true, std::memory_order_release);
    for (auto& t : team_) t.join();
  }
  template <class Work>
  void share(int groups, Work work) {
    if (team_.empty() || groups == 1) {
      for (int g = 0; g < groups; ++g) work(g);
      return;
    }
    job_ = &work;
    run_ = [](void* job, int g) { (*static_cast<Work*>(job))(g); };
    done_.store(0, std::memory_order_relaxed);
    const uint64_t round = ++round_ << 16 | static_cast<uint64_t>(groups) << 8;
    ticket_.store(round, std::memory_order_release);
    while (take()) {
    }
    while (done_.load(std::memory_order_acquire) < groups) std::this_thread::yield();
  }

 private:
  // Takes the next tile of the present round, if there is one. The ticket is (round, tiles, tile)
  // in one word: a tile can only be taken in the round that it was seen in.
  bool take() {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    const int g = static_cast<int>(ticket & 255), groups = static_cast<int>(ticket >> 8 & 255);
    if (g >= groups) return false;
    if (!ticket_.compare_exchange_strong(ticket, ticket + 1, std::memory_order_acq_rel))
      return true;  // another was faster: look again
    run_(job_, g);
    done_.fetch_add(1, std::memory_order_release);
    return true;
  }
  void wait() {
    for (int idle = 0; !stop_.load(std::memory_order_acquire); ++idle) {
      if (take()) idle = 0;
      if (idle > 4000) std::this_thread::yield();
    }
  }
  std::vector<std::thread> team_;
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int> done_{0};
  std::atomic<bool> stop_{false};
  uint64_t round_ = 0;
  void* job_ = nullptr;
  void (*run_)(void*, int) = nullptr;
};

// How many tiles at a time is a matter of how much there is to sum, never of the threads: the bits
// are the same for any number of them.
template <class T, int R>
inline void learn_rows(Lane<T>& k) {
  const auto memory = std::make_unique<Scratch<T, R>>(k);
  const bool large = R > 1 && k.count * k.d > kShared;
  Team team(large ? k.threads : 1);
  while (k.done < k.rows) {
    const int64_t n = std::min<int64_t>(large ? kGroups * R : R, k.rows - k.done);
    if (!learn_block<T, R>(k, *memory, k.done, n,
                           [&](int groups, auto work) { team.share(groups, work); }))
      return;
    k.done += n;
    if (must_fold(k)) return;
  }
}

// The score of one row as things are; false if it is not for here. Nothing is changed.
template <class T>
bool look_lane(Lane<T>& k) {
  Scratch<T, 1> memory(k);
  auto& h = memory.hands[0];
  if (!take_rows<T, 1>(k, 0, 1, memory.numbers.data, memory.numbers.data + k.d, h)) return false;
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
