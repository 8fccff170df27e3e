// What the binding files share: arrays, checks, and the parts as Python hands them over.
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

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
using NodeTuple = std::tuple<int, double, double, int>;

inline void require(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(std::string("onkel core: ") + what);
}

inline std::vector<onkel::Node> nodes_of(const std::vector<NodeTuple>& program) {
  require(!program.empty() && program.size() < 1000, "a kernel program has 1 to 999 nodes");
  std::vector<onkel::Node> nodes;
  int depth = 0;
  for (const auto& [op, a, b, c] : program) {
    require(op >= 0 && op <= onkel::kScale, "unknown kernel operation");
    if (op == onkel::kSum || op == onkel::kProduct)
      --depth;
    else if (op != onkel::kScale)
      ++depth;
    require(depth >= 1 && depth <= onkel::kMaxDepth, "a kernel nests too deep");
    nodes.push_back({op, a, b, c});
  }
  require(depth == 1, "a kernel program must leave one value");
  return nodes;
}

using LossTuple = std::tuple<int, double, double, bool>;
using RuleTuple = std::tuple<int, double, double, double, double, double>;

inline onkel::Loss loss_of(const LossTuple& loss) {
  const auto& [code, nu, extra, learn_alerts] = loss;
  return {code, nu, extra, learn_alerts};
}

inline onkel::Rule rule_of(const RuleTuple& rule) {
  const auto& [code, threshold_rate, power, support_rate, radius, extra] = rule;
  return {code, threshold_rate, power, support_rate, radius, extra};
}

// One row of running moments (Welford); population variance. `seen` is the weight of all rows so
// far, one number per column; it fades by `fade` before the row enters. Where all rows are whole
// (`plain`) one number stands for all columns; else NaN is a value that has not come.
template <class T>
inline void take_moments(const T* x, size_t d, double fade, bool plain, double horizon,
                         double* seen, double* mean, double* variance) {
  const auto enter = [&](size_t j, double share) {
    const double delta = static_cast<double>(x[j]) - mean[j], move = share * delta;
    mean[j] += move;
    variance[j] = (1.0 - share) * (variance[j] + move * delta);
  };
  if (plain && d > 0) {
    const double now = seen[0] * fade + 1.0, share = 1.0 / std::min(now, horizon);
    for (size_t j = 0; j < d; ++j) enter(j, share);
    for (size_t j = 0; j < d; ++j) seen[j] = now;
    return;
  }
  for (size_t j = 0; j < d; ++j) {
    seen[j] *= fade;
    if (std::isnan(x[j])) continue;
    seen[j] += 1.0;
    enter(j, 1.0 / std::min(seen[j], horizon));
  }
}

}  // namespace
