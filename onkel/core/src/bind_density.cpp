// The detector for Python: its plan, its state as arrays that are changed in place, and one call.
#include "bind.hpp"

namespace {

using namespace seam;

constexpr int64_t kMost = int64_t{1} << 53;  // of anything that is counted

struct State {
  State(const Out<int64_t>& whole, const Out<double>& real, const Out<double>& mean,
        const Out<double>& cov, const Out<double>& center, const Out<double>& scale,
        const Out<double>& turn, const Out<double>& last, const Out<double>& smooth,
        const Out<double>& size, const Out<double>& calm, const Out<double>& raw,
        const Out<double>& late_raw, const Out<float>& z, const Out<float>& late_z,
        const Out<float>& sums, const Out<float>& late_sums, const Out<uint8_t>& marks,
        const Out<double>& held, const Out<int64_t>& due, const Out<double>& waiting,
        const Out<double>& history, const Out<double>& ranked) {
    require(raw.ndim() == 3 && raw.shape(0) == 2 && cov.ndim() == 3 && late_raw.ndim() == 2,
            "raw and cov have three axes, late_raw two");
    const int64_t d = whole_(raw.shape(2)), places = whole_(raw.shape(1));
    const int64_t ranks = whole_(cov.shape(1)), late_places = whole_(late_raw.shape(0));
    const int64_t holds = whole_(due.size());
    require(d > 0 && has(last, d) && has(smooth, d) && has(size, d) && has(calm, 4 * d),
            "last, smooth, size and calm need one number per feature");
    const int64_t waits = whole_(waiting.size()) / d;
    require(has(whole, onkel::kCounts) && has(real, onkel::kLevels),
            "counts or levels are missing");
    require(ranks == d || ranks == 1, "covariances are whole, or one number per feature");
    require(has(mean, 3 * d) && has(center, 3 * d) && has(scale, 3 * d) &&
                has(cov, 3 * ranks * d) && has(turn, 3 * ranks * d),
            "moments and metric do not fit the features");
    require(places % 16 == 0 && late_places % 16 == 0 && places > 0 && late_places > 0,
            "places come in sixteens");
    require(has(z, 3 * d * places) && has(sums, 7 * places) && has(late_z, d * late_places) &&
                has(late_sums, 2 * late_places) && has(marks, places) &&
                has(late_raw, late_places * d),
            "the terms do not fit each other");
    require(holds > 0 && waits > 0 && has(held, holds * (2 * d + 2)) && has(waiting, waits * d),
            "the rings do not fit the features");
    require(history.size() == ranked.size(), "history and its ranked copy differ");
    at = {};
    at.d = d;
    at.ranks = ranks;
    at.places = places;
    at.late_places = late_places;
    at.waits = waits;
    at.holds = holds;
    at.whole = whole.data();
    at.real = real.data();
    at.mean = mean.data();
    at.cov = cov.data();
    at.center = center.data();
    at.scale = scale.data();
    at.turn = turn.data();
    at.last = last.data();
    at.smooth = smooth.data();
    at.size = size.data();
    at.calm = calm.data();
    at.raw = raw.data();
    at.late_raw = late_raw.data();
    at.z = z.data();
    at.late_z = late_z.data();
    at.sums = sums.data();
    at.late_sums = late_sums.data();
    at.marks = marks.data();
    at.held = held.data();
    at.due = due.data();
    at.waiting = waiting.data();
    at.history = history.data();
    at.ranked = ranked.data();
    remembered = whole_(history.size());
    kept_whole = {whole, due};
    kept_real = {real, mean, cov, center,   scale, turn,    last,    smooth,
                 size, calm, raw, late_raw, held,  waiting, history, ranked};
    kept_marks = marks;
    kept_float = {z, late_z, sums, late_sums};
  }
  static int64_t whole_(size_t n) { return static_cast<int64_t>(n); }

  // Whether so many rows can be learned (0: judged only) within the plan and the arrays.
  void check(const onkel::DensityPlan& plan, int64_t rows) const {
    const int64_t* n = at.whole;
    require(plan.young >= 12 && plan.terms >= plan.young && plan.late_terms >= plan.young &&
                plan.history >= plan.young && plan.delay >= 0 && plan.hold >= 0 &&
                std::max({plan.delay, plan.hold}) < kMost,
            "the plan is out of range");
    require(std::all_of(n, n + onkel::kCounts, [](int64_t k) { return k >= 0 && k < kMost; }),
            "counts are out of range");
    const int64_t waiting = n[onkel::kCountT] - n[onkel::kCountLateSeen];
    const int64_t later = rows ? rows + n[onkel::kCountHeld] : 0;  // what is held comes in later
    const auto room = [](int64_t now, int64_t more, int64_t most, int64_t there) {
      return now >= 0 && now <= most && std::min(now + more, most) <= there;
    };
    require(room(n[onkel::kCountSize], later, plan.terms, at.places) &&
                room(n[onkel::kCountLateSize], rows + waiting, plan.late_terms, at.late_places) &&
                room(n[onkel::kCountHistory], later, plan.history, remembered) &&
                room(n[onkel::kCountHeld], rows, plan.hold + 1, at.holds) &&
                room(waiting, rows, plan.delay + 1, at.waits),
            "the arrays are too small for so many rows");
    require(n[onkel::kCountHeldFirst] < at.holds, "the ring of held rows begins outside itself");
    require(n[onkel::kCountHistory] == plan.history
                ? n[onkel::kCountHistoryAt] < plan.history
                : n[onkel::kCountHistoryAt] == n[onkel::kCountHistory],
            "the history has its next place outside itself");
  }

  onkel::Density at;
  int64_t remembered;
  std::vector<Out<int64_t>> kept_whole;
  std::vector<Out<double>> kept_real;
  std::vector<Out<float>> kept_float;
  Out<uint8_t> kept_marks;
};

void density(const onkel::DensityPlan& plan, const State& state, const In<double>& x,
             const In<double>& weight, const Out<double>& out, const Out<double>& members) {
  onkel::Density s = state.at;
  require(x.ndim() == 2 && whole(x.shape(1)) == s.d, "the rows do not fit the state");
  s.rows = whole(x.shape(0));
  require(has(out, 4 * s.rows), "out needs four numbers per row");
  require(members.size() == 0 || has(members, 9 * s.rows), "members need nine numbers per row");
  require(weight.size() == 0 || has(weight, s.rows), "one weight per row, or none");
  state.check(plan, whole(weight.size()));
  s.x = x.data();
  s.weight = weight.size() ? weight.data() : nullptr;
  s.out = out.data();
  s.members = members.size() ? members.data() : nullptr;
  nb::gil_scoped_release release;
  onkel::current_table().density(plan, s);
}

}  // namespace

void bind_density(nb::module_& m) {
  using Plan = onkel::DensityPlan;
  nb::class_<Plan>(m, "DensityPlan")
      .def(
          "__init__",
          [](Plan* p, double nu, double memory, int64_t terms, int64_t late_terms, int64_t delay,
             int64_t hold, int64_t history, int64_t warmup, int64_t young, int64_t seed,
             double span, double rate, double low, double high) {
            new (p) Plan{nu,     memory, terms, late_terms, delay, hold, history,
                         warmup, young,  seed,  span,       rate,  low,  high};
          },
          "nu"_a, "memory"_a, "terms"_a, "late_terms"_a, "delay"_a, "hold"_a, "history"_a,
          "warmup"_a, "young"_a, "seed"_a, "span"_a, "rate"_a, "low"_a, "high"_a);
  nb::class_<State>(m, "DensityState")
      .def(nb::init<const Out<int64_t>&, const Out<double>&, const Out<double>&, const Out<double>&,
                    const Out<double>&, const Out<double>&, const Out<double>&, const Out<double>&,
                    const Out<double>&, const Out<double>&, const Out<double>&, const Out<double>&,
                    const Out<double>&, const Out<float>&, const Out<float>&, const Out<float>&,
                    const Out<float>&, const Out<uint8_t>&, const Out<double>&, const Out<int64_t>&,
                    const Out<double>&, const Out<double>&, const Out<double>&>(),
           written("whole"), written("real"), written("mean"), written("cov"), written("center"),
           written("scale"), written("turn"), written("last"), written("smooth"), written("size"),
           written("calm"), written("raw"), written("late_raw"), written("z"), written("late_z"),
           written("sums"), written("late_sums"), written("marks"), written("held"), written("due"),
           written("waiting"), written("history"), written("ranked"));
  m.def("density", &density, "plan"_a, "state"_a, "x"_a, "weight"_a, written("out"),
        written("members"));
}
