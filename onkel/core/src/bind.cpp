// The module: chooses the instruction set, checks shapes, releases the GIL.
#include "bind.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

namespace onkel {
#ifdef ONKEL_X86_LEVELS
extern const Table table_v2, table_v3, table_v4;
#else
extern const Table table_plain;
#endif
}  // namespace onkel

namespace {

using onkel::Node;
using onkel::Program;
using onkel::Table;

std::vector<const Table*> available() {
  std::vector<const Table*> found;
#ifdef ONKEL_X86_LEVELS
  __builtin_cpu_init();
  found.push_back(&onkel::table_v2);
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  if (v3) found.push_back(&onkel::table_v3);
  if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd"))
    found.push_back(&onkel::table_v4);
#else
  found.push_back(&onkel::table_plain);
#endif
  return found;
}

const Table* current = available().back();

std::vector<std::string> levels() {
  std::vector<std::string> names;
  for (const Table* t : available()) names.emplace_back(t->name);
  return names;
}

void use_level(const std::string& name) {
  for (const Table* t : available())
    if (name == t->name) {
      current = t;
      return;
    }
  throw std::invalid_argument("this processor has no instruction set level '" + name + "'");
}

template <class T>
onkel::Queries<T> queries_of(const In<T>& q, const In<T>& v, const In<T>& off, const In<T>& norm,
                             const In<T>& width) {
  require(q.ndim() == 2 && v.ndim() == 2 && q.shape(0) == v.shape(0) && q.shape(1) == v.shape(1),
          "q and v must be matrices of one shape");
  require(off.size() == q.shape(0) && norm.size() == q.shape(0) && width.size() == q.shape(1),
          "query vectors have the wrong length");
  return {q.data(),
          v.data(),
          off.data(),
          norm.data(),
          width.data(),
          static_cast<int64_t>(q.shape(0)),
          static_cast<int64_t>(q.shape(1))};
}

template <class T>
auto sums_function() {
  if constexpr (sizeof(T) == 4)
    return current->sums_f;
  else
    return current->sums_d;
}

// Splits the query rows over threads: each row's sum is made by one thread, in one order, so the
// bits do not depend on how many there are.
template <class T>
void sums(const std::vector<NodeTuple>& program, const In<T>& q, const In<T>& v, const In<T>& off,
          const In<T>& norm, const In<T>& width, const In<T>& panels, const In<T>& norms,
          int64_t first, int64_t used, const In<T>& coef, const Out<double>& out, int threads) {
  const auto nodes = nodes_of(program);
  const auto queries = queries_of(q, v, off, norm, width);
  require(panels.ndim() == 3 && panels.shape(1) == q.shape(1) && panels.shape(2) == onkel::kLanes,
          "panels must be [capacity][features][lanes]");
  const int64_t capacity = static_cast<int64_t>(panels.shape(0));
  require(norms.size() == panels.shape(0) * onkel::kLanes, "norms must be [capacity][lanes]");
  require(coef.ndim() == 3 && coef.shape(0) == panels.shape(0) && coef.shape(2) == onkel::kLanes,
          "coef must be [capacity][columns][lanes]");
  require(used >= 0 && used <= capacity && first >= 0 && first < std::max<int64_t>(capacity, 1),
          "panel range outside the ring");
  const int64_t columns = static_cast<int64_t>(coef.shape(1));
  require(out.ndim() == 2 && out.shape(0) == q.shape(0) &&
              static_cast<int64_t>(out.shape(1)) == columns,
          "out must be [rows][columns]");
  const onkel::Panels<T> terms{panels.data(), norms.data(), capacity, first, used};
  const auto run = sums_function<T>();
  nb::gil_scoped_release release;
  constexpr int64_t grain = 8;
  const int64_t pieces =
      std::min<int64_t>(std::max(threads, 1), (queries.rows + grain - 1) / grain);
  const int64_t step = pieces > 1
                           ? ((queries.rows + pieces - 1) / pieces + grain - 1) / grain * grain
                           : queries.rows;
  std::vector<std::thread> pool;
  pool.reserve(static_cast<size_t>(std::max<int64_t>(pieces, 1)));
  std::atomic<bool> failed{false};
  for (int64_t start = 0; start < queries.rows; start += step) {
    auto part = queries;
    part.q += start * queries.d;
    part.v += start * queries.d;
    part.off += start;
    part.norm += start;
    part.rows = std::min(step, queries.rows - start);
    double* target = out.data() + start * columns;
    auto work = [=, &nodes, &failed] {
      try {
        run(Program{nodes.data(), static_cast<int>(nodes.size())}, part, terms, coef.data(),
            columns, target);
      } catch (const std::bad_alloc&) {
        failed = true;
      }
    };
    if (start + step >= queries.rows) {
      work();
      continue;
    }
    try {
      pool.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads to be had: do it here
      work();
    }
  }
  for (auto& t : pool) t.join();
  if (failed) throw std::bad_alloc();
}

template <class T>
void matrix(const std::vector<NodeTuple>& program, const In<T>& q, const In<T>& v, const In<T>& off,
            const In<T>& norm, const In<T>& width, const In<T>& rows, const In<T>& norms,
            const Out<double>& out) {
  const auto nodes = nodes_of(program);
  const auto queries = queries_of(q, v, off, norm, width);
  require(rows.ndim() == 2 && rows.shape(1) == q.shape(1) && norms.size() == rows.shape(0),
          "rows and norms do not fit the queries");
  require(out.ndim() == 2 && out.shape(0) == q.shape(0) && out.shape(1) == rows.shape(0),
          "out must be [queries][rows]");
  const int64_t n = static_cast<int64_t>(rows.shape(0)), d = queries.d;
  nb::gil_scoped_release release;
  const int64_t used = (n + onkel::kLanes - 1) / onkel::kLanes;
  if (!used || !queries.rows) return;
  std::vector<T> packed(static_cast<size_t>(used * d * onkel::kLanes));
  std::vector<T> lengths(static_cast<size_t>(used * onkel::kLanes));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t p = i / onkel::kLanes, l = i % onkel::kLanes;
    lengths[static_cast<size_t>(i)] = norms.data()[i];
    for (int64_t j = 0; j < d; ++j)
      packed[static_cast<size_t>((p * d + j) * onkel::kLanes + l)] = rows.data()[i * d + j];
  }
  const onkel::Panels<T> terms{packed.data(), lengths.data(), used, 0, used};
  const Program text{nodes.data(), static_cast<int>(nodes.size())};
  if constexpr (sizeof(T) == 4)
    current->matrix_f(text, queries, terms, n, out.data());
  else
    current->matrix_d(text, queries, terms, n, out.data());
}

std::tuple<int64_t, int64_t, int64_t, bool> steps(
    const In<double>& kernel, const In<double>& base, const In<double>& old_coef,
    const In<double>& diag, const In<int64_t>& births, int64_t live, int64_t first_trial,
    const In<double>& y, const In<double>& weight, const In<double>& eta, const In<double>& lam,
    const In<int64_t>& cap, const In<int64_t>& hosts, const In<int64_t>& oldest,
    const LossTuple& loss, const RuleTuple& rule, bool intercept, bool needs_norm, bool average,
    double stop_scale, const Out<double>& state, const Out<double>& score,
    const Out<double>& mean_score, const Out<double>& limit, const Out<double>& coef,
    const Out<uint8_t>& kept, const Out<uint8_t>& merged, const Out<uint8_t>& wiped) {
  onkel::StepInput in{};
  require(y.ndim() == 2, "y must be [rows][columns]");
  in.rows = static_cast<int64_t>(y.shape(0));
  in.columns = static_cast<int64_t>(y.shape(1));
  in.old_count = static_cast<int64_t>(births.size());
  in.live = live;
  in.first_trial = first_trial;
  const size_t wide = static_cast<size_t>(average ? 2 * in.columns : in.columns);
  const size_t n = births.size() + y.shape(0), lead = needs_norm ? n : y.shape(0);
  require(kernel.size() == lead * n && base.size() == lead * wide, "kernel or base has wrong size");
  require(old_coef.size() == wide * births.size() && diag.size() == n, "old_coef or diag");
  require(weight.size() == y.shape(0) && eta.size() == y.shape(0) && lam.size() == y.shape(0) &&
              cap.size() == y.shape(0) && oldest.size() == y.shape(0) && hosts.size() == y.shape(0),
          "one weight, rate and window per row");
  require(state.size() == y.shape(1) * onkel::kFields && score.size() == y.size() &&
              limit.size() == y.size() && mean_score.size() == (average ? y.size() : 0) &&
              coef.size() == y.shape(0) * wide && kept.size() == y.shape(0) &&
              merged.size() == y.shape(0) && wiped.size() == y.shape(1),
          "an output array has the wrong size");
  in.kernel = kernel.data();
  in.base = base.data();
  in.old_coef = old_coef.data();
  in.diag = diag.data();
  in.births = births.data();
  in.y = y.data();
  in.weight = weight.data();
  in.eta = eta.data();
  in.lam = lam.data();
  in.cap = cap.data();
  in.hosts = hosts.data();
  in.oldest = oldest.data();
  in.loss = loss_of(loss);
  in.rule = rule_of(rule);
  in.intercept = intercept;
  in.needs_norm = needs_norm;
  in.average = average;
  in.stop_scale = stop_scale;
  onkel::StepOutput out{};
  out.state = state.data();
  out.score = score.data();
  out.mean_score = mean_score.data();
  out.limit = limit.data();
  out.coef = coef.data();
  out.kept = kept.data();
  out.merged = merged.data();
  out.wiped = wiped.data();
  nb::gil_scoped_release release;
  current->steps(in, out);
  return {out.dropped, out.done, out.bad_row, out.stale_norm};
}

// Returns the first row whose step is not finite, or -1; state, theta and total change in place.
int64_t primal(const In<double>& x, const In<double>& y, const In<double>& weight,
               const In<double>& eta, const In<double>& lam, const LossTuple& loss,
               const RuleTuple& rule, double p, bool intercept, bool needs_norm, bool average,
               const Out<double>& state, const Out<double>& theta, const Out<double>& total,
               const Out<double>& score, const Out<double>& mean_score, const Out<double>& limit) {
  onkel::PrimalInput in{};
  require(x.ndim() == 2 && y.ndim() == 2 && x.shape(0) == y.shape(0), "x and y must be matrices");
  in.rows = static_cast<int64_t>(y.shape(0));
  in.columns = static_cast<int64_t>(y.shape(1));
  in.d = static_cast<int64_t>(x.shape(1));
  const size_t wide = y.shape(1) * (x.shape(1) + 1);
  require(weight.size() == y.shape(0) && eta.size() == y.shape(0) && lam.size() == y.shape(0),
          "one weight and rate per row");
  require(state.size() == y.shape(1) * onkel::kFields && theta.size() == wide &&
              total.size() == (average ? wide : 0) && score.size() == y.size() &&
              limit.size() == y.size() && mean_score.size() == (average ? y.size() : 0),
          "an output array has the wrong size");
  in.x = x.data();
  in.y = y.data();
  in.weight = weight.data();
  in.eta = eta.data();
  in.lam = lam.data();
  in.loss = loss_of(loss);
  in.rule = rule_of(rule);
  in.p = p;
  in.intercept = intercept;
  in.needs_norm = needs_norm;
  in.average = average;
  onkel::PrimalOutput out{
      state.data(), theta.data(), total.data(), score.data(), mean_score.data(), limit.data(), -1};
  nb::gil_scoped_release release;
  current->primal(in, out);
  return out.bad_row;
}

// Rows into running moments, each weighing 1/min(seen, horizon); fade = what becomes of `seen`
// before each row, or nothing.
void moments(const In<double>& rows, const In<double>& fade, bool plain, double horizon,
             const Out<double>& seen, const Out<double>& mean, const Out<double>& variance) {
  require(rows.ndim() == 2 && mean.size() == rows.shape(1) && variance.size() == rows.shape(1) &&
              seen.size() == rows.shape(1),
          "seen, mean and variance need one number per column");
  require(fade.size() == 0 || fade.size() == rows.shape(0), "fade needs one number per row");
  const size_t d = rows.shape(1);
  double *n = seen.data(), *m = mean.data(), *v = variance.data();
  nb::gil_scoped_release release;
  for (size_t i = 0; i < rows.shape(0); ++i)
    take_moments(rows.data() + i * d, d, fade.size() ? fade.data()[i] : 1.0, plain, horizon, n, m,
                 v);
}

}  // namespace

const onkel::Table& onkel::current_table() { return *current; }
void bind_tree(nb::module_& m);  // in bind_tree.cpp
void bind_lane(nb::module_& m);  // in bind_lane.cpp
void bind_bank(nb::module_& m);  // in bind_bank.cpp

NB_MODULE(_native, m) {
  m.attr("LANES") = onkel::kLanes;
  m.attr("FIELDS") = static_cast<int>(onkel::kFields);
  m.def("levels", &levels);
  m.def("level", [] { return std::string(current->name); });
  m.def("use_level", &use_level, "name"_a);
  m.def("sums", &sums<float>);
  m.def("sums", &sums<double>);
  m.def("matrix", &matrix<float>);
  m.def("matrix", &matrix<double>);
  m.def("steps", &steps);
  m.def("primal", &primal);
  m.def("moments", &moments);
  bind_tree(m);
  bind_lane(m);
  bind_bank(m);
}
