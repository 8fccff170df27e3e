// The detector for Python: its plan, its state as arrays that are changed in place, and one call.
#include "bind.hpp"

namespace {

using namespace seam;

constexpr int64_t kMost = int64_t{1} << 53;  // of anything that is counted

// The arrays of onkel/core/density.py: DensityState, in its order.
struct State {
  Out<int64_t> whole;
  Out<double> real, mean, cov, center, scale, turn, last, smooth, size, calm, raw, late_raw;
  Out<float> z, late_z, sums, late_sums;
  Out<uint8_t> marks;
  Out<double> held;
  Out<int64_t> due;
  Out<double> waiting, history, ranked;

  int64_t d() const { return seam::whole(raw.shape(2)); }
  int64_t ranks() const { return seam::whole(cov.shape(1)); }
  int64_t places() const { return seam::whole(raw.shape(1)); }
  int64_t late_places() const { return seam::whole(late_raw.shape(0)); }
  int64_t holds() const { return seam::whole(due.size()); }
  int64_t waits() const { return seam::whole(waiting.size()) / d(); }

  // Whether the arrays fit each other.
  void check_shapes() const {
    require(raw.ndim() == 3 && raw.shape(0) == 2 && cov.ndim() == 3 && late_raw.ndim() == 2,
            "raw and cov have three axes, late_raw two");
    const int64_t n = d(), flat = 3 * n, square = 3 * ranks() * n;
    require(n > 0 && has(last, n) && has(smooth, n) && has(size, n) && has(calm, 4 * n),
            "last, smooth, size and calm need one number per feature");
    require(has(whole, onkel::kCounts) && has(real, onkel::kLevels),
            "counts or levels are missing");
    require(ranks() == n || ranks() == 1, "covariances are whole, or one number per feature");
    require(has(mean, flat) && has(center, flat) && has(scale, flat) && has(cov, square) &&
                has(turn, square),
            "moments and metric do not fit the features");
    check_terms();
    require(
        holds() > 0 && waits() > 0 && has(held, holds() * (2 * n + 2)) && has(waiting, waits() * n),
        "the rings do not fit the features");
    require(history.size() == ranked.size(), "history and its ranked copy differ");
  }

  void check_terms() const {
    const int64_t n = places(), late = late_places();
    require(n > 0 && late > 0 && n % 16 == 0 && late % 16 == 0, "places come in sixteens");
    require(has(z, 3 * d() * n) && has(sums, 7 * n) && has(marks, n) && has(late_z, d() * late) &&
                has(late_sums, 2 * late) && has(late_raw, late * d()),
            "the terms do not fit each other");
  }

  // Whether so many rows can be learned (0: judged only) within the plan and the arrays.
  void check(const onkel::DensityPlan& plan, int64_t rows) const {
    const int64_t* n = whole.data();
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
    require(room(n[onkel::kCountSize], later, plan.terms, places()) &&
                room(n[onkel::kCountLateSize], rows ? rows + waiting : 0, plan.late_terms,
                     late_places()) &&
                room(n[onkel::kCountHistory], later, plan.history, seam::whole(history.size())) &&
                room(n[onkel::kCountHeld], rows, plan.hold + 1, holds()) &&
                room(waiting, rows, plan.delay + 1, waits()),
            "the arrays are too small for so many rows");
    require(n[onkel::kCountHeldFirst] < holds(), "the ring of held rows begins outside itself");
    require(n[onkel::kCountHistory] == plan.history
                ? n[onkel::kCountHistoryAt] < plan.history
                : n[onkel::kCountHistoryAt] == n[onkel::kCountHistory],
            "the history has its next place outside itself");
  }

  onkel::Density view() const {
    onkel::Density s{};
    s.d = d(), s.ranks = ranks(), s.places = places(), s.late_places = late_places();
    s.waits = waits(), s.holds = holds();
    s.whole = whole.data(), s.real = real.data();
    s.mean = mean.data(), s.cov = cov.data();
    s.center = center.data(), s.scale = scale.data(), s.turn = turn.data();
    s.last = last.data(), s.smooth = smooth.data(), s.size = size.data(), s.calm = calm.data();
    s.raw = raw.data(), s.late_raw = late_raw.data();
    s.z = z.data(), s.late_z = late_z.data();
    s.sums = sums.data(), s.late_sums = late_sums.data();
    s.marks = marks.data(), s.held = held.data(), s.due = due.data();
    s.waiting = waiting.data(), s.history = history.data(), s.ranked = ranked.data();
    return s;
  }
};

// Answered alerts, and the ring of those that wait (onkel/core/answers.py: Answers).
struct Answered {
  In<double> places, radius, strength;
  In<int64_t> born;
  double memory, theta;
  bool judges, alone;
  Out<double> asked;
  Out<int64_t> asked_at;
  Out<uint8_t> said;
  Out<int64_t> asked_count;

  int64_t count() const { return whole(born.size()); }
  int64_t room() const { return whole(asked_at.size()); }

  onkel::Answers view(int64_t d) const {
    require(has(places, count() * 15 * d) && has(radius, count() * 4) && has(strength, count()),
            "the answers do not fit the features");
    require(has(asked, room() * (3 * d + 2)) && has(said, room()) && has(asked_count, 2) &&
                asked_count.data()[0] >= 0 && memory > 0,
            "the alerts that wait do not fit the features");
    onkel::Answers a{};
    a.count = count(), a.places = places.data(), a.radius = radius.data();
    a.strength = strength.data(), a.born = born.data(), a.memory = memory;
    a.theta = theta, a.judges = judges, a.alone = alone, a.room = room();
    a.asked = asked.data(), a.asked_at = asked_at.data(), a.said = said.data();
    a.asked_count = asked_count.data();
    return a;
  }
};

// Returns how many rows were judged and learned: all, unless it was to stop before an alert.
int64_t density(const onkel::DensityPlan& plan, const State& state, const Answered* answers,
                const In<double>& x, const In<double>& weight, const Out<double>& out,
                const Out<double>& members, int64_t stop_from) {
  onkel::Density s = state.view();
  if (answers) s.answers = answers->view(s.d);
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
  s.stop_from = stop_from;
  nb::gil_scoped_release release;
  onkel::current_table().density(plan, s);
  return s.done;
}

using Whole = const Out<int64_t>&;
using Real = const Out<double>&;
using Single = const Out<float>&;

void make_state(State* to, Whole whole, Real real, Real mean, Real cov, Real center, Real scale,
                Real turn, Real last, Real smooth, Real size, Real calm, Real raw, Real late_raw,
                Single z, Single late_z, Single sums, Single late_sums, const Out<uint8_t>& marks,
                Real held, Whole due, Real waiting, Real history, Real ranked) {
  State made{whole,     real,  mean, cov, center,   scale,   turn,   last,
             smooth,    size,  calm, raw, late_raw, z,       late_z, sums,
             late_sums, marks, held, due, waiting,  history, ranked};
  made.check_shapes();
  new (to) State(std::move(made));
}

void make_answers(Answered* to, const In<double>& places, const In<double>& radius,
                  const In<double>& strength, const In<int64_t>& born, double memory, double theta,
                  bool judges, bool alone, Real asked, Whole asked_at, const Out<uint8_t>& said,
                  Whole asked_count) {
  new (to) Answered{places, radius, strength, born,     memory, theta,
                    judges, alone,  asked,    asked_at, said,   asked_count};
}

void make_plan(onkel::DensityPlan* to, double nu, double memory, int64_t terms, int64_t late_terms,
               int64_t delay, int64_t hold, int64_t history, int64_t warmup, int64_t young,
               int64_t seed, double span, double rate, double low, double high) {
  new (to) onkel::DensityPlan{nu,     memory, terms, late_terms, delay, hold, history,
                              warmup, young,  seed,  span,       rate,  low,  high};
}

}  // namespace

void bind_density(nb::module_& m) {
  nb::class_<onkel::DensityPlan>(m, "DensityPlan")
      .def("__init__", &make_plan, "nu"_a, "memory"_a, "terms"_a, "late_terms"_a, "delay"_a,
           "hold"_a, "history"_a, "warmup"_a, "young"_a, "seed"_a, "span"_a, "rate"_a, "low"_a,
           "high"_a);
  nb::class_<State>(m, "DensityState")
      .def("__init__", &make_state, written("whole"), written("real"), written("mean"),
           written("cov"), written("center"), written("scale"), written("turn"), written("last"),
           written("smooth"), written("size"), written("calm"), written("raw"), written("late_raw"),
           written("z"), written("late_z"), written("sums"), written("late_sums"), written("marks"),
           written("held"), written("due"), written("waiting"), written("history"),
           written("ranked"));
  nb::class_<Answered>(m, "DensityAnswers")
      .def("__init__", &make_answers, "places"_a, "radius"_a, "strength"_a, "born"_a, "memory"_a,
           "theta"_a, "judges"_a, "alone"_a, written("asked"), written("asked_at"), written("said"),
           written("asked_count"));
  m.def("density", &density, "plan"_a, "state"_a, "answers"_a.none(), "x"_a, "weight"_a,
        written("out"), written("members"), "stop_from"_a = -1);
}
