// A bank of settings over one ring of terms, for Python: sums for several kernels at once, the
// scalar steps of every member, and the mixing of their answers.
#include <atomic>
#include <cmath>
#include <thread>

#include "bind.hpp"

namespace {

using onkel::Panels;
using onkel::Program;
using onkel::Programs;
using onkel::Queries;

template <class T>
void run_sums(const Programs& programs, const Queries<T>& queries, const Panels<T>& panels,
              const T* coef, int64_t columns, double* out) {
  if constexpr (sizeof(T) == 4)
    onkel::current_table().bank_sums_f(programs, queries, panels, coef, columns, out);
  else
    onkel::current_table().bank_sums_d(programs, queries, panels, coef, columns, out);
}

// Each row's sums are made by one thread, in one order: the bits do not depend on how many.
template <class T>
void share_sums(const Programs& programs, const Queries<T>& queries, const Panels<T>& panels,
                const T* coef, int64_t columns, double* out, int threads) {
  constexpr int64_t grain = 8;
  const int64_t groups = (queries.rows + grain - 1) / grain;
  const int64_t pieces = std::clamp<int64_t>(threads, 1, std::max<int64_t>(groups, 1));
  const int64_t step = std::max<int64_t>((groups + pieces - 1) / pieces * grain, 1);
  std::vector<std::thread> pool;
  std::atomic<bool> failed{false};
  for (int64_t start = 0; start < queries.rows; start += step) {
    auto part = queries;
    part.q += start * queries.d;
    part.v += start * queries.d;
    part.off += start;
    part.norm += start;
    part.rows = std::min(step, queries.rows - start);
    double* target = out + start * columns;
    auto work = [=, &programs, &panels, &failed] {
      try {
        run_sums(programs, part, panels, coef, columns, target);
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

// The rows of a block as terms, so that they can meet each other.
template <class T>
struct Packed {
  explicit Packed(const Queries<T>& rows)
      : used((rows.rows + onkel::kLanes - 1) / onkel::kLanes),
        values(static_cast<size_t>(used * rows.d * onkel::kLanes)),
        norms(static_cast<size_t>(used * onkel::kLanes)) {
    for (int64_t i = 0; i < rows.rows; ++i) {
      const int64_t p = i / onkel::kLanes, l = i % onkel::kLanes;
      norms[static_cast<size_t>(i)] = rows.norm[i];
      for (int64_t j = 0; j < rows.d; ++j)
        values[static_cast<size_t>((p * rows.d + j) * onkel::kLanes + l)] = rows.v[i * rows.d + j];
    }
  }
  Panels<T> panels() const { return {values.data(), norms.data(), used, 0, used}; }

  int64_t used;
  std::vector<T> values, norms;
};

template <class T>
void run_matrix(const Programs& programs, const Queries<T>& rows, const Panels<T>& panels,
                double* out) {
  if constexpr (sizeof(T) == 4)
    onkel::current_table().bank_matrix_f(programs, rows, panels, rows.rows, out);
  else
    onkel::current_table().bank_matrix_d(programs, rows, panels, rows.rows, out);
}

using ProgramList = std::vector<std::vector<NodeTuple>>;

// Kernel programs, and the columns that each serves.
struct Owned {
  Owned(const ProgramList& programs, const std::vector<int64_t>& last) : ends(last) {
    require(!programs.empty() && programs.size() == last.size(), "each kernel has its columns");
    require(std::is_sorted(ends.begin(), ends.end()) && ends.front() >= 0, "columns in order");
    for (const auto& p : programs) nodes.push_back(nodes_of(p));
    for (const auto& n : nodes) list.push_back({n.data(), static_cast<int>(n.size())});
  }
  Programs view() const { return {list.data(), ends.data(), static_cast<int64_t>(list.size())}; }

  std::vector<int64_t> ends;
  std::vector<std::vector<onkel::Node>> nodes;
  std::vector<Program> list;
};

template <class T>
using RowsTuple = std::tuple<In<T>, In<T>, In<T>, In<T>, In<T>>;
template <class T>
using RingTuple = std::tuple<In<T>, In<T>, int64_t, int64_t, In<T>>;

template <class T>
Queries<T> rows_of(const RowsTuple<T>& rows) {
  const auto& [q, v, off, norm, width] = rows;
  require(q.ndim() == 2 && v.ndim() == 2 && q.shape(0) == v.shape(0) && q.shape(1) == v.shape(1) &&
              off.size() == q.shape(0) && norm.size() == q.shape(0) && width.size() == q.shape(1),
          "the bank's rows have the wrong size");
  return {q.data(),
          v.data(),
          off.data(),
          norm.data(),
          width.data(),
          static_cast<int64_t>(q.shape(0)),
          static_cast<int64_t>(q.shape(1))};
}

template <class T>
Panels<T> ring_of(const RingTuple<T>& ring, const Queries<T>& rows, int64_t columns) {
  const auto& [panels, norms, first, used, coef] = ring;
  require(panels.ndim() == 3 && static_cast<int64_t>(panels.shape(1)) == rows.d &&
              panels.shape(2) == onkel::kLanes && norms.size() == panels.shape(0) * onkel::kLanes &&
              coef.ndim() == 3 && coef.shape(0) == panels.shape(0) &&
              static_cast<int64_t>(coef.shape(1)) == columns && coef.shape(2) == onkel::kLanes,
          "the bank's terms have the wrong size");
  const int64_t capacity = static_cast<int64_t>(panels.shape(0));
  require(used >= 0 && used <= capacity && first >= 0 && first < std::max<int64_t>(capacity, 1),
          "panel range outside the ring");
  return {panels.data(), norms.data(), capacity, first, used};
}

// rows = (q, v, off, norm, width), ring = (panels, norms, first panel, panels used, coefficients).
template <class T>
void bank_sums(const ProgramList& programs, const std::vector<int64_t>& ends,
               const RowsTuple<T>& rows, const RingTuple<T>& ring, const Out<double>& out,
               int threads) {
  const Owned owned(programs, ends);
  const auto queries = rows_of(rows);
  const int64_t columns = ends.back();
  const auto panels = ring_of(ring, queries, columns);
  require(static_cast<int64_t>(out.size()) == queries.rows * columns,
          "out must be [rows][columns]");
  nb::gil_scoped_release release;
  share_sums(owned.view(), queries, panels, std::get<4>(ring).data(), columns, out.data(), threads);
}

// A member: which kernel, its loss, its rule, whether it has an offset.
using MemberTuple = std::tuple<int64_t, LossTuple, RuleTuple, bool>;

// The scalar steps of one member of a bank; no term goes while a block is learned.
struct Steps {
  int64_t rows, columns, first_trial;
  const double *kernel, *base, *diag, *y, *weight, *eta, *lam;
  const std::vector<int64_t>&cap, &none, &oldest;
  double *state, *score, *limit, *coef;
  uint8_t *kept, *merged, *wiped;

  onkel::StepOutput run(const MemberTuple& member) const {
    onkel::StepInput in{};
    in.rows = rows;
    in.columns = columns;
    in.first_trial = first_trial;
    in.kernel = kernel;
    in.base = base;
    in.diag = diag;
    in.y = y;
    in.weight = weight;
    in.eta = eta;
    in.lam = lam;
    in.cap = cap.data();
    in.hosts = none.data();
    in.oldest = oldest.data();
    in.loss = loss_of(std::get<1>(member));
    in.rule = rule_of(std::get<2>(member));
    in.intercept = std::get<3>(member);
    in.stop_scale = 1e-100;
    onkel::StepOutput out{};
    out.state = state;
    out.score = score;
    out.limit = limit;
    out.coef = coef;
    out.kept = kept;
    out.merged = merged;
    out.wiped = wiped;
    onkel::current_table().steps(in, out);
    return out;
  }
};

// data = (y [rows][outputs], weight, eta and lam [members][rows], diag [kernels][rows]); out =
// (state [members][outputs][fields], score, limit, coef [members][rows][outputs], kept [rows],
// wiped [members][outputs]). Returns how many rows every member has done, and the first bad row or
// -1.
template <class T>
std::tuple<int64_t, int64_t> bank(
    const ProgramList& programs, const std::vector<int64_t>& ends,
    const std::vector<MemberTuple>& members, const RowsTuple<T>& rows, const RingTuple<T>& ring,
    int64_t first_trial,
    const std::tuple<In<double>, In<double>, In<double>, In<double>, In<double>>& data,
    const std::tuple<Out<double>, Out<double>, Out<double>, Out<double>, Out<uint8_t>,
                     Out<uint8_t>>& out,
    int threads) {
  const Owned owned(programs, ends);
  const auto queries = rows_of(rows);
  const auto& [y, weight, eta, lam, diag] = data;
  const auto& [state, score, limit, coef, kept, wiped] = out;
  require(y.ndim() == 2 && static_cast<int64_t>(y.shape(0)) == queries.rows, "y by rows");
  const int64_t n = queries.rows, c = static_cast<int64_t>(y.shape(1));
  const int64_t m = static_cast<int64_t>(members.size()), columns = m * c;
  const auto kernels = static_cast<int64_t>(programs.size());
  require(ends.back() == columns, "one column per member and output");
  const auto panels = ring_of(ring, queries, columns);
  const auto has = [](const auto& a, int64_t size) {
    return static_cast<int64_t>(a.size()) == size;
  };
  require(has(weight, n) && has(eta, m * n) && has(lam, m * n) && has(diag, kernels * n),
          "one number per row");
  require(has(state, columns * onkel::kFields) && has(score, columns * n) &&
              has(limit, columns * n) && has(coef, columns * n) && has(kept, n) &&
              has(wiped, columns),
          "an output array of the bank has the wrong size");
  for (const auto& member : members)
    require(std::get<0>(member) >= 0 && std::get<0>(member) < kernels, "no such kernel");
  nb::gil_scoped_release release;
  const auto size = [](int64_t a) { return static_cast<size_t>(a); };
  std::vector<double> sums(size(n * columns)), base(size(n * c)), pairs(size(kernels * n * n));
  share_sums(owned.view(), queries, panels, std::get<4>(ring).data(), columns, sums.data(),
             threads);
  const Packed<T> packed(queries);
  run_matrix(owned.view(), queries, packed.panels(), pairs.data());
  const std::vector<int64_t> cap(size(n), int64_t(1) << 60), none(size(n), onkel::kNone),
      oldest(size(n), 0);
  std::vector<uint8_t> stored(size(n)), merged(size(n));
  std::fill_n(kept.data(), n, uint8_t(0));
  int64_t done = n, bad = -1;
  for (int64_t i = 0; i < m; ++i) {
    const int64_t kernel = std::get<0>(members[size(i)]);
    double* s = state.data() + i * c * onkel::kFields;
    for (int64_t t = 0; t < n; ++t)
      for (int64_t o = 0; o < c; ++o)
        base[size(t * c + o)] =
            sums[size(t * columns + i * c + o)] * s[o * onkel::kFields + onkel::kFieldScale];
    std::fill(stored.begin(), stored.end(), uint8_t(0));
    std::fill(merged.begin(), merged.end(), uint8_t(0));
    const Steps steps{n,
                      c,
                      first_trial,
                      pairs.data() + kernel * n * n,
                      base.data(),
                      diag.data() + kernel * n,
                      y.data(),
                      weight.data(),
                      eta.data() + i * n,
                      lam.data() + i * n,
                      cap,
                      none,
                      oldest,
                      s,
                      score.data() + i * n * c,
                      limit.data() + i * n * c,
                      coef.data() + i * n * c,
                      stored.data(),
                      merged.data(),
                      wiped.data() + i * c};
    const auto result = steps.run(members[size(i)]);
    if (result.bad_row >= 0 && result.bad_row < done) bad = result.bad_row;
    done = std::min(done, result.done);
    for (int64_t t = 0; t < n; ++t) kept.data()[t] |= stored[size(t)];
  }
  return {done, bad >= 0 && bad < done ? bad : -1};
}

// Exponential weights with fixed share: before[t] are the weights with which trial t is met, and
// gap[t] what that trial's mean loss exceeds its mixed loss by. The weights change in place.
void fixed_share(const In<double>& losses, double rate, double share, const Out<double>& weights,
                 const Out<double>& before, const Out<double>& gap) {
  require(losses.ndim() == 2 && weights.size() == losses.shape(1) &&
              before.size() == losses.size() && gap.size() == losses.shape(0),
          "one loss and one weight per member");
  const size_t n = losses.shape(0), m = losses.shape(1);
  double* w = weights.data();
  nb::gil_scoped_release release;
  for (size_t t = 0; t < n; ++t) {
    const double* loss = losses.data() + t * m;
    double total = 0, mean = 0, least = HUGE_VAL;  // of those that count: nothing overflows
    for (size_t i = 0; i < m; ++i) {
      before.data()[t * m + i] = w[i];
      mean += w[i] * loss[i];
      if (w[i] > 0) least = std::min(least, loss[i]);
    }
    for (size_t i = 0; i < m; ++i)
      total += w[i] *= w[i] > 0 ? std::exp(-rate * (loss[i] - least)) : 0;
    gap.data()[t] = mean - least + std::log(total) / rate;
    for (size_t i = 0; i < m; ++i)
      w[i] = (1 - share) * (w[i] / total) + share / static_cast<double>(m);
  }
}

}  // namespace

void bind_bank(nb::module_& m) {
  m.def("bank_sums_f", &bank_sums<float>);
  m.def("bank_sums_d", &bank_sums<double>);
  m.def("bank_f", &bank<float>);
  m.def("bank_d", &bank<double>);
  m.def("fixed_share", &fixed_share);
}
