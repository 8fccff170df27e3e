// What the binding files share: arrays, checks, and the parts as Python hands them over. Each part
// is a class of the module: it is checked when it is made, and not again.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "api.hpp"
#include "running.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace seam {

template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

[[noreturn]] inline void fail(const std::string& what) {
  throw std::invalid_argument("onkel core: " + what);
}

inline void require(bool ok, const char* what) {
  if (!ok) fail(what);
}

// An argument that is written to: an array of another type or layout is refused. nanobind would
// hand over a converted copy of it, and what is written there would be lost.
inline auto written(const char* name) { return nb::arg(name).noconvert(); }

inline int64_t whole(size_t n) { return static_cast<int64_t>(n); }

template <class Array>
inline bool has(const Array& array, int64_t size) {
  return whole(array.size()) == size;
}

// A code from Python as a row of the table.
template <class Code, size_t N>
inline Code code_of(const char* what, int code, const char* const (&names)[N]) {
  if (code >= 0 && code < static_cast<int>(N)) return static_cast<Code>(code);
  std::string all;
  for (size_t i = 0; i < N; ++i) all += (i ? ", " : "") + std::to_string(i) + " " + names[i];
  fail(std::string("unknown ") + what + " " + std::to_string(code) + "; this core was built with " +
       all +
       ". Give one of these, or add a row for it to onkel/core/layout.py, what its recipe in "
       "CONTRIBUTING.md names, and build the core again");
}

// A kernel program, in the order in which it runs.
struct Program {
  explicit Program(const std::vector<std::tuple<int, double, double, int>>& nodes);
  onkel::Program view() const { return {nodes.data(), static_cast<int>(nodes.size())}; }

  std::vector<onkel::Node> nodes;
};

// Loss, rule and what else decides a step.
struct Stepper {
  onkel::Loss loss;
  onkel::Rule rule;
  bool intercept, needs_norm;
};

// Rows made ready (onkel/core/frame.py): dot(x, s) = q . s + off, |x|^2 = norm.
template <class T>
struct Queries {
  Queries(const In<T>& q, const In<T>& v, const In<T>& off, const In<T>& norm, const In<T>& width,
          int64_t codes);
  onkel::Queries<T> view() const {
    return {q.data(),     v.data(), off.data(),        norm.data(),
            width.data(), rows(),   whole(q.shape(1)), codes};
  }
  int64_t rows() const { return whole(q.shape(0)); }
  // Rows first ... first + count - 1.
  onkel::Queries<T> part(int64_t first, int64_t count) const {
    auto found = view();
    found.q += first * found.d;
    found.v += first * found.d;
    found.off += first;
    found.norm += first;
    found.rows = count;
    return found;
  }

  In<T> q, v, off, norm, width;
  int64_t codes;  // the first columns of q and v; of width, what two of them are apart
};

// Stored terms as sums read them: of a ring of panels, `used` from the panel `first` on.
template <class T>
struct Panels {
  Panels(const In<T>& values, const In<T>& norms, const In<T>& coef, int64_t first, int64_t used);
  onkel::Panels<T> view() const {
    return {values.data(), norms.data(), whole(values.shape(0)), first, used};
  }
  int64_t features() const { return whole(values.shape(1)); }
  int64_t columns() const { return whole(coef.shape(1)); }

  In<T> values, norms, coef;
  int64_t first, used;
};

// Rows laid out as terms, so that others (or they themselves) can meet them.
template <class T>
struct Packed {
  Packed(const T* rows, const T* lengths, int64_t n, int64_t d)
      : used((n + onkel::kLanes - 1) / onkel::kLanes),
        values(static_cast<size_t>(used * d * onkel::kLanes)),
        norms(static_cast<size_t>(used * onkel::kLanes)) {
    std::copy_n(lengths, n, norms.begin());
    for (int64_t i = 0; i < n; ++i) {
      const int64_t p = i / onkel::kLanes, l = i % onkel::kLanes;
      for (int64_t j = 0; j < d; ++j)
        values[static_cast<size_t>((p * d + j) * onkel::kLanes + l)] = rows[i * d + j];
    }
  }
  onkel::Panels<T> panels() const { return {values.data(), norms.data(), used, 0, used}; }

  int64_t used;
  std::vector<T> values, norms;
};

// The coordinates of the stored rows (onkel/core/frame.py), of which the first columns are codes.
template <class T>
struct Frame {
  Frame(const In<double>& center, const In<double>& unit, const In<double>& width,
        const In<double>& shift, const In<double>& apart, bool invariant, double clip);
  int64_t features() const { return whole(center.size()); }
  int64_t codes() const { return whole(apart.size()); }
  int64_t numbers() const { return features() - codes(); }
  // What a row's codes add to its squared length.
  double alike() const {
    double sum = 0;
    for (size_t j = 0; j < apart.size(); ++j) sum += apart.data()[j];
    return sum / 2;
  }

  onkel::Coordinates view() const {
    return {features(),   codes(), center.data(), unit.data(), width.data(),
            shift.data(), alike(), invariant,     clip};
  }

  In<double> center, unit, width, shift, apart;
  std::vector<T> width_t;
  bool invariant;
  double clip;
};

// Stored terms that are learned in place.
template <class T>
struct Terms {
  Terms(const Out<T>& panels, const Out<T>& norms, const Out<double>& coef, const Out<T>& weights,
        const Out<int64_t>& births);
  int64_t features() const { return whole(panels.shape(1)); }
  int64_t columns() const { return whole(coef.shape(1)); }
  int64_t slots() const { return whole(panels.shape(0)) * onkel::kLanes; }

  Out<T> panels, norms;
  Out<double> coef;
  Out<T> weights;
  Out<int64_t> births;
};

// Where the terms begin, how many there are and may be, and which goes when there are too many.
struct Ring {
  int64_t head, count, cap;
  onkel::BudgetCode budget;
};

// Running moments (onkel/scaling.py), updated in place.
struct Moments {
  Moments(const Out<double>& seen, const Out<double>& mean, const Out<double>& variance,
          double horizon, bool plain, bool steady);
  int64_t columns() const { return whole(mean.size()); }

  // One row; `seen` fades by `fade` before it enters.
  template <class T>
  void take(const T* x, double fade) {
    const int64_t d = columns();
    onkel::Running{d, seen.data(), mean.data(), variance.data(), horizon, plain, steady, d}.take(
        x, fade);
  }

  Out<double> seen, mean, variance;
  double horizon;
  bool plain, steady;
};

extern template struct Queries<float>;
extern template struct Queries<double>;
extern template struct Panels<float>;
extern template struct Panels<double>;
extern template struct Frame<float>;
extern template struct Frame<double>;
extern template struct Terms<float>;
extern template struct Terms<double>;

// The parts of one type of rows are classes of their own: name + "F" or "D".
template <class T>
inline std::string named(const char* name) {
  return std::string(name) + (sizeof(T) == 4 ? "F" : "D");
}

}  // namespace seam
