// The scalar loops for Python: over terms and over weights. What they read is one part, what they
// write another; both are checked when they are made, and against each other when they meet.
#include <optional>

#include "bind_codes.hpp"

namespace {

using namespace seam;

// What `steps` reads; see onkel::StepInput.
struct StepInput {
  StepInput(const In<double>& kernel, const In<double>& base, const In<double>& old_coef,
            const In<double>& diag, const In<int64_t>& births, int64_t live, int64_t first_trial,
            const In<double>& y, const In<double>& weight, const In<double>& eta,
            const In<double>& lam, const In<int64_t>& cap, const In<int64_t>& hosts,
            const In<int64_t>& oldest, const Stepper& stepper, int budget, bool average,
            double stop_scale)
      : arrays{kernel, base, old_coef, diag, y, weight, eta, lam},
        whole_{births, cap, hosts, oldest} {
    require(y.ndim() == 2, "y must be [rows][columns]");
    const size_t rows = y.shape(0), wide = (average ? 2 : 1) * y.shape(1);
    const size_t n = births.size() + rows, lead = stepper.needs_norm ? n : rows;
    require(kernel.size() == lead * n && base.size() == lead * wide,
            "kernel or base has the wrong size");
    require(old_coef.size() == wide * births.size() && diag.size() == n,
            "old_coef or diag has the wrong size");
    require(weight.size() == rows && eta.size() == rows && lam.size() == rows &&
                cap.size() == rows && oldest.size() == rows && hosts.size() == rows,
            "one weight, rate and window per row");
    require(std::all_of(hosts.data(), hosts.data() + rows,
                        [n](int64_t host) { return host >= onkel::kStays && host < whole(n); }),
            "a row's host is none of the candidates");
    view = {whole(rows),
            whole(y.shape(1)),
            whole(births.size()),
            live,
            first_trial,
            kernel.data(),
            base.data(),
            old_coef.data(),
            diag.data(),
            births.data(),
            y.data(),
            weight.data(),
            eta.data(),
            lam.data(),
            cap.data(),
            hosts.data(),
            oldest.data(),
            stepper.loss,
            stepper.rule,
            stepper.intercept,
            stepper.needs_norm,
            average,
            code_of<onkel::BudgetCode>("budget", budget, onkel::kBudgetCodeNames),
            stop_scale};
  }

  std::vector<In<double>> arrays;  // held, for as long as they are looked at
  std::vector<In<int64_t>> whole_;
  onkel::StepInput view{};
};

// What `steps` writes; see onkel::StepOutput.
struct StepOutput {
  StepOutput(const Out<double>& state, const Out<double>& score, const Out<double>& mean_score,
             const Out<double>& limit, const Out<double>& coef, const Out<uint8_t>& kept,
             const Out<uint8_t>& merged, const Out<uint8_t>& wiped)
      : state(state),
        score(score),
        mean_score(mean_score),
        limit(limit),
        coef(coef),
        kept(kept),
        merged(merged),
        wiped(wiped) {
    view = {state.data(),
            score.data(),
            mean_score.data(),
            limit.data(),
            coef.data(),
            kept.data(),
            merged.data(),
            wiped.data(),
            0,
            0,
            false,
            -1};
  }
  void check(const onkel::StepInput& in) const {
    const int64_t n = in.rows, c = in.columns, wide = in.average ? 2 * c : c;
    require(has(state, c * onkel::kFields) && has(score, n * c) && has(limit, n * c) &&
                has(mean_score, in.average ? n * c : 0) && has(coef, n * wide) && has(kept, n) &&
                has(merged, n) && has(wiped, c),
            "an output array has the wrong size");
  }

  Out<double> state, score, mean_score, limit, coef;
  Out<uint8_t> kept, merged, wiped;
  onkel::StepOutput view{};
};

void steps(const StepInput& task, StepOutput& out) {
  out.check(task.view);
  nb::gil_scoped_release release;
  onkel::current_table().steps(task.view, out.view);
}

// What `primal` reads; see onkel::PrimalInput.
struct PrimalInput {
  PrimalInput(const In<double>& x, const In<double>& y, const In<double>& weight,
              const In<double>& eta, const In<double>& lam, const Stepper& stepper, double p,
              bool average, const CodeTable* codes)
      : arrays{x, y, weight, eta, lam} {
    require(x.ndim() == 2 && y.ndim() == 2 && x.shape(0) == y.shape(0), "x and y must be matrices");
    require(weight.size() == y.shape(0) && eta.size() == y.shape(0) && lam.size() == y.shape(0),
            "one weight and rate per row");
    const int64_t rows = whole(y.shape(0)), width = whole(x.shape(1));
    if (codes) {
      require(p == 2, "weights of codes need p = 2");
      require(codes->count() <= width && codes->columns() == whole(y.shape(1)) &&
                  codes->averages() == (average && y.shape(1) > 0),
              "the weights of codes do not fit x and y");
      at.resize(static_cast<size_t>(rows * codes->count()));
      fill_buckets(x.data(), rows, width, codes->count(), codes->buckets(), at.data());
      table.emplace(*codes);
    }
    view = {rows,
            whole(y.shape(1)),
            width - (codes ? codes->count() : 0),
            x.data(),
            y.data(),
            weight.data(),
            eta.data(),
            lam.data(),
            stepper.loss,
            stepper.rule,
            p,
            stepper.intercept,
            stepper.needs_norm,
            average};
  }

  std::vector<In<double>> arrays;
  std::vector<int32_t> at;  // the buckets of all codes
  std::optional<CodeTable> table;
  onkel::PrimalInput view{};
};

// What `primal` writes: state, theta and total change in place, as do the weights of codes.
struct PrimalOutput {
  PrimalOutput(const Out<double>& state, const Out<double>& theta, const Out<double>& total,
               const Out<double>& score, const Out<double>& mean_score, const Out<double>& limit)
      : state(state),
        theta(theta),
        total(total),
        score(score),
        mean_score(mean_score),
        limit(limit) {
    view = {state.data(),      theta.data(), total.data(), score.data(),
            mean_score.data(), limit.data(), -1,           {}};
  }
  void check(const onkel::PrimalInput& in) const {
    const int64_t n = in.rows, c = in.columns, wide = c * (in.d + 1);
    require(has(state, c * onkel::kFields) && has(theta, wide) &&
                has(total, in.average ? wide : 0) && has(score, n * c) && has(limit, n * c) &&
                has(mean_score, in.average ? n * c : 0),
            "an output array has the wrong size");
  }

  Out<double> state, theta, total, score, mean_score, limit;
  onkel::PrimalOutput view{};
};

void primal(const PrimalInput& task, PrimalOutput& out) {
  out.check(task.view);
  out.view.codes = task.table ? task.table->view(task.at.data()) : onkel::Codes{};
  nb::gil_scoped_release release;
  onkel::current_table().primal(task.view, out.view);
}

// Adds what the codes of rows say: `now` times by the weights, `then` times by the past ones.
void code_scores(const In<double>& x, const CodeTable& table, const In<double>& now,
                 const In<double>& then, const Out<double>& out) {
  require(x.ndim() == 2 && whole(x.shape(1)) >= table.count(), "rows narrower than their codes");
  const int64_t rows = whole(x.shape(0)), columns = table.columns();
  require(has(now, columns) && has(then, columns) && has(out, rows * columns),
          "one number per output");
  std::vector<int32_t> at(static_cast<size_t>(rows * table.count()));
  fill_buckets(x.data(), rows, whole(x.shape(1)), table.count(), table.buckets(), at.data());
  onkel::current_table().code_scores(table.view(at.data()), rows, now.data(), then.data(),
                                     out.data());
}

void bind_input(nb::module_& m) {
  nb::class_<StepInput>(m, "StepInput")
      .def(nb::init<const In<double>&, const In<double>&, const In<double>&, const In<double>&,
                    const In<int64_t>&, int64_t, int64_t, const In<double>&, const In<double>&,
                    const In<double>&, const In<double>&, const In<int64_t>&, const In<int64_t>&,
                    const In<int64_t>&, const Stepper&, int, bool, double>(),
           "kernel"_a, "base"_a, "old_coef"_a, "diag"_a, "births"_a, "live"_a, "first_trial"_a,
           "y"_a, "weight"_a, "eta"_a, "lam"_a, "cap"_a, "hosts"_a, "oldest"_a, "stepper"_a,
           "budget"_a, "average"_a, "stop_scale"_a);
  nb::class_<PrimalInput>(m, "PrimalInput")
      .def(nb::init<const In<double>&, const In<double>&, const In<double>&, const In<double>&,
                    const In<double>&, const Stepper&, double, bool, const CodeTable*>(),
           "x"_a, "y"_a, "weight"_a, "eta"_a, "lam"_a, "stepper"_a, "p"_a, "average"_a,
           "codes"_a.none());
}

// Where the weights of codes [rows][columns] stand in a table of so many.
void buckets(const In<double>& codes, int64_t count, const Out<int64_t>& out) {
  require(codes.ndim() == 2 && out.size() == codes.size(), "one bucket per code");
  require_buckets(count);
  const size_t width = codes.shape(1);
  for (size_t i = 0; i < codes.size(); ++i)
    out.data()[i] = bucket_of(whole(i % width), codes.data()[i], count);
}

}  // namespace

void bind_steps(nb::module_& m) {
  nb::class_<CodeTable>(m, "CodeTable")
      .def(nb::init<int64_t, const Out<double>&, const Out<double>&, const Out<double>&>(),
           "count"_a, written("weights"), written("past"), written("marks"));
  m.def("buckets", &buckets, "codes"_a, "count"_a, written("out"));
  m.def("code_scores", &code_scores, "x"_a, "table"_a, "now"_a, "then"_a, written("out"));
  bind_input(m);
  nb::class_<StepOutput>(m, "StepOutput")
      .def(nb::init<const Out<double>&, const Out<double>&, const Out<double>&, const Out<double>&,
                    const Out<double>&, const Out<uint8_t>&, const Out<uint8_t>&,
                    const Out<uint8_t>&>(),
           written("state"), written("score"), written("mean_score"), written("limit"),
           written("coef"), written("kept"), written("merged"), written("wiped"))
      .def_prop_ro("dropped", [](const StepOutput& out) { return out.view.dropped; })
      .def_prop_ro("done", [](const StepOutput& out) { return out.view.done; })
      .def_prop_ro("bad_row", [](const StepOutput& out) { return out.view.bad_row; })
      .def_prop_ro("stale_norm", [](const StepOutput& out) { return out.view.stale_norm; });
  nb::class_<PrimalOutput>(m, "PrimalOutput")
      .def(nb::init<const Out<double>&, const Out<double>&, const Out<double>&, const Out<double>&,
                    const Out<double>&, const Out<double>&>(),
           written("state"), written("theta"), written("total"), written("score"),
           written("mean_score"), written("limit"))
      .def_prop_ro("bad_row", [](const PrimalOutput& out) { return out.view.bad_row; });
  m.def("steps", &steps, "task"_a, "out"_a);
  m.def("primal", &primal, "task"_a, "out"_a);
}
