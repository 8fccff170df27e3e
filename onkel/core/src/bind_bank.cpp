// A bank of settings over one ring of terms, for Python: sums for several kernels at once, the
// scalar steps of every member, and the mixing of their answers.
#include "bind_bank.hpp"

#include <cmath>

#include "threads.hpp"

namespace {

using namespace seam;

template <class T>
void check_fit(const Programs& programs, const Queries<T>& queries, const Panels<T>& panels) {
  require(
      panels.features() == whole(queries.q.shape(1)) && panels.columns() == programs.ends.back(),
      "the bank's terms have the wrong size");
}

template <class T>
void share_sums(const Programs& programs, const Queries<T>& queries, const Panels<T>& panels,
                double* out, int threads) {
  const auto& table = onkel::current_table();
  const int64_t columns = panels.columns();
  share_rows(queries.rows(), threads, 8, [&](int64_t first, int64_t count) {
    const auto part = queries.part(first, count);
    double* to = out + first * columns;
    if constexpr (sizeof(T) == 4)
      table.bank_sums_f(programs.view(), part, panels.view(), panels.coef.data(), columns, to);
    else
      table.bank_sums_d(programs.view(), part, panels.view(), panels.coef.data(), columns, to);
  });
}

template <class T>
void bank_sums(const Programs& programs, const Queries<T>& queries, const Panels<T>& panels,
               const Out<double>& out, int threads) {
  check_fit(programs, queries, panels);
  require(has(out, queries.rows() * panels.columns()), "out must be [rows][columns]");
  nb::gil_scoped_release release;
  share_sums(programs, queries, panels, out.data(), threads);
}

// The rows' kernel values at each other, [kernel][row][row].
template <class T>
std::vector<double> pairs_of(const Programs& programs, const Queries<T>& queries) {
  const auto rows = queries.view();
  const Packed<T> packed(rows.v, rows.norm, rows.rows, rows.d);
  std::vector<double> pairs(programs.of.size() * queries.v.shape(0) * queries.v.shape(0));
  const auto& table = onkel::current_table();
  if constexpr (sizeof(T) == 4)
    table.bank_matrix_f(programs.view(), rows, packed.panels(), rows.rows, pairs.data());
  else
    table.bank_matrix_d(programs.view(), rows, packed.panels(), rows.rows, pairs.data());
  return pairs;
}

// What goes with the rows of a block: eta and lam by member, diag by kernel.
struct BankRows {
  BankRows(int64_t first_trial, const In<double>& y, const In<double>& weight,
           const In<double>& eta, const In<double>& lam, const In<double>& diag)
      : first_trial(first_trial), y(y), weight(weight), eta(eta), lam(lam), diag(diag) {
    require(y.ndim() == 2, "y must be [rows][outputs]");
  }
  void check(int64_t rows, int64_t members, int64_t kernels) const {
    require(has(weight, rows) && has(eta, members * rows) && has(lam, members * rows) &&
                has(diag, kernels * rows) && whole(y.shape(0)) == rows,
            "one number per row");
  }

  int64_t first_trial;
  In<double> y, weight, eta, lam, diag;
};

// state [members][outputs][fields], score, limit, coef [members][rows][outputs], kept [rows],
// wiped [members][outputs]; how many rows every member has done, and the first bad row or -1.
struct BankOutput {
  BankOutput(const Out<double>& state, const Out<double>& score, const Out<double>& limit,
             const Out<double>& coef, const Out<uint8_t>& kept, const Out<uint8_t>& wiped)
      : state(state), score(score), limit(limit), coef(coef), kept(kept), wiped(wiped) {}
  void check(int64_t rows, int64_t columns) const {
    require(has(state, columns * onkel::kFields) && has(score, columns * rows) &&
                has(limit, columns * rows) && has(coef, columns * rows) && has(kept, rows) &&
                has(wiped, columns),
            "an output array of the bank has the wrong size");
  }

  Out<double> state, score, limit, coef;
  Out<uint8_t> kept, wiped;
  int64_t done = 0, bad_row = -1;
};

// The scalar steps of one member after another; no term goes while a block is learned.
class Members {
 public:
  Members(const BankRows& rows, BankOutput& out, int64_t members)
      : rows_(rows),
        out_(out),
        n_(whole(rows.y.shape(0))),
        c_(whole(rows.y.shape(1))),
        columns_(members * c_),
        cap_(size(n_), int64_t(1) << 60),
        none_(size(n_), onkel::kNoTerm),
        oldest_(size(n_), 0),
        base_(size(n_ * c_)),
        stored_(size(n_)),
        merged_(size(n_)) {
    std::fill_n(out.kept.data(), n_, uint8_t(0));
    out.done = n_;
    out.bad_row = -1;
  }

  void learn(int64_t i, int64_t kernel, const Stepper& stepper, const double* sums,
             const double* pairs) {
    double* state = out_.state.data() + i * c_ * onkel::kFields;
    for (int64_t t = 0; t < n_; ++t)
      for (int64_t o = 0; o < c_; ++o)
        base_[size(t * c_ + o)] =
            sums[t * columns_ + i * c_ + o] * state[o * onkel::kFields + onkel::kFieldScale];
    std::fill(stored_.begin(), stored_.end(), uint8_t(0));
    std::fill(merged_.begin(), merged_.end(), uint8_t(0));
    note(run(input(i, kernel, stepper, pairs), i, state));
  }
  // A bad row counts where every member has come as far.
  void finish() {
    if (out_.bad_row >= out_.done) out_.bad_row = -1;
  }

 private:
  static size_t size(int64_t n) { return static_cast<size_t>(n); }

  onkel::StepInput input(int64_t i, int64_t kernel, const Stepper& stepper,
                         const double* pairs) const {
    onkel::StepInput in{};
    in.rows = n_;
    in.columns = c_;
    in.first_trial = rows_.first_trial;
    in.kernel = pairs + kernel * n_ * n_;
    in.base = base_.data();
    in.diag = rows_.diag.data() + kernel * n_;
    in.y = rows_.y.data();
    in.weight = rows_.weight.data();
    in.eta = rows_.eta.data() + i * n_;
    in.lam = rows_.lam.data() + i * n_;
    in.cap = cap_.data();
    in.hosts = none_.data();
    in.oldest = oldest_.data();
    in.loss = stepper.loss;
    in.rule = stepper.rule;
    in.intercept = stepper.intercept;
    in.budget = onkel::BudgetCode::kOldest;
    in.stop_scale = 1e-100;
    return in;
  }
  onkel::StepOutput run(const onkel::StepInput& in, int64_t i, double* state) {
    const int64_t at = i * n_ * c_;
    onkel::StepOutput out{};
    out.state = state;
    out.score = out_.score.data() + at;
    out.limit = out_.limit.data() + at;
    out.coef = out_.coef.data() + at;
    out.kept = stored_.data();
    out.merged = merged_.data();
    out.wiped = out_.wiped.data() + i * c_;
    onkel::current_table().steps(in, out);
    return out;
  }
  void note(const onkel::StepOutput& found) {
    if (found.bad_row >= 0 && found.bad_row < out_.done) out_.bad_row = found.bad_row;
    out_.done = std::min(out_.done, found.done);
    for (int64_t t = 0; t < n_; ++t) out_.kept.data()[t] |= stored_[size(t)];
  }

  const BankRows& rows_;
  BankOutput& out_;
  int64_t n_, c_, columns_;
  std::vector<int64_t> cap_, none_, oldest_;
  std::vector<double> base_;
  std::vector<uint8_t> stored_, merged_;
};

// Learns a block with every member; kernels: the number of each member's kernel.
template <class T>
void bank(const Programs& programs, const std::vector<Stepper>& members,
          const std::vector<int64_t>& kernels, const Queries<T>& queries, const Panels<T>& panels,
          const BankRows& rows, BankOutput& out, int threads) {
  const int64_t m = whole(members.size()), count = whole(programs.of.size());
  check_fit(programs, queries, panels);
  rows.check(queries.rows(), m, count);
  require(panels.columns() == m * whole(rows.y.shape(1)), "one column per member and output");
  out.check(queries.rows(), panels.columns());
  require(kernels.size() == members.size(), "one kernel per member");
  for (const int64_t kernel : kernels) require(kernel >= 0 && kernel < count, "no such kernel");
  nb::gil_scoped_release release;
  std::vector<double> sums(queries.v.shape(0) * static_cast<size_t>(panels.columns()));
  share_sums(programs, queries, panels, sums.data(), threads);
  const auto pairs = pairs_of(programs, queries);
  Members steps(rows, out, m);
  for (int64_t i = 0; i < m; ++i)
    steps.learn(i, kernels[static_cast<size_t>(i)], members[static_cast<size_t>(i)], sums.data(),
                pairs.data());
  steps.finish();
}

template <class T>
void bind_type(nb::module_& m) {
  m.def("bank_sums", &bank_sums<T>, "programs"_a, "queries"_a, "panels"_a, written("out"),
        "threads"_a);
  m.def("bank", &bank<T>, "programs"_a, "members"_a, "kernels"_a, "queries"_a, "panels"_a, "rows"_a,
        "out"_a, "threads"_a);
}

}  // namespace

void bind_bank(nb::module_& m) {
  nb::class_<Programs>(m, "Programs")
      .def(nb::init<const std::vector<Program>&, const std::vector<int64_t>&>(), "of"_a, "ends"_a);
  nb::class_<BankRows>(m, "BankRows")
      .def(nb::init<int64_t, const In<double>&, const In<double>&, const In<double>&,
                    const In<double>&, const In<double>&>(),
           "first_trial"_a, "y"_a, "weight"_a, "eta"_a, "lam"_a, "diag"_a);
  nb::class_<BankOutput>(m, "BankOutput")
      .def(nb::init<const Out<double>&, const Out<double>&, const Out<double>&, const Out<double>&,
                    const Out<uint8_t>&, const Out<uint8_t>&>(),
           written("state"), written("score"), written("limit"), written("coef"), written("kept"),
           written("wiped"))
      .def_ro("done", &BankOutput::done)
      .def_ro("bad_row", &BankOutput::bad_row);
  bind_type<float>(m);
  bind_type<double>(m);
}
