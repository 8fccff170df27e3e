// The fast lane for Python: many rows in one call, and single rows for which everything that a call
// needs is bound once, so that the call itself is cheap.
#include "bind_lane.hpp"

#include <cmath>
#include <optional>

namespace {

using namespace seam;

template <class T>
void run(onkel::Lane<T>& k) {
  if constexpr (sizeof(T) == 4)
    onkel::current_table().lane_f(k);
  else
    onkel::current_table().lane_d(k);
}

template <class T>
bool look_at(onkel::Lane<T>& k) {
  if constexpr (sizeof(T) == 4)
    return onkel::current_table().look_f(k);
  else
    return onkel::current_table().look_d(k);
}

// Rows as they came, and what goes with each.
template <class T>
struct Block {
  Block(int64_t first_trial, const In<T>& x, const In<double>& y, const In<double>& weight,
        const In<double>& eta, const In<double>& lam, const In<int64_t>& oldest)
      : first_trial(first_trial), x(x), y(y), weight(weight), eta(eta), lam(lam), oldest(oldest) {
    require(x.ndim() == 2 && y.ndim() == 2 && y.shape(0) == x.shape(0), "x and y must be matrices");
    const int64_t rows = whole(x.shape(0));
    require(has(weight, rows) && has(eta, rows) && has(lam, rows) && has(oldest, rows),
            "one weight, rate and age per row");
  }

  int64_t first_trial;
  In<T> x;
  In<double> y, weight, eta, lam;
  In<int64_t> oldest;
};

// Returns how many rows were learned; the ring moves on with them.
template <class T>
int64_t lane(const Program& program, const Frame<T>& frame, const Terms<T>& terms, Ring& ring,
             const Out<double>& state, const Stepper& stepper, const Block<T>& block,
             const BlockOutput& out, int threads) {
  auto k = lane_of(program, frame, terms, ring, state, stepper);
  k.rows = whole(block.x.shape(0));
  require(whole(block.x.shape(1)) == k.d && whole(block.y.shape(1)) == k.columns,
          "the rows do not fit the terms");
  hand_over(k, block, out, threads);
  k.oldest = block.oldest.data();
  nb::gil_scoped_release release;
  run(k);
  ring.head = k.head;
  ring.count = k.count;
  return k.done;
}

// A learner between two refreshes of its frame, which takes rows one by one.
template <class T>
class One {
 public:
  // `rows` and `wanted`: moments of rows and targets, or null where none are kept; scores and
  // limits: where each row's are left, one per output.
  One(const Program& program, const Frame<T>& frame, const Terms<T>& terms, const Ring& ring,
      const Out<double>& state, const Stepper& stepper, const Targets& targets, const Moments* rows,
      const Moments* wanted, const Out<double>& scores, const Out<double>& limits)
      : program_(program),
        frame_(frame),
        terms_(terms),
        state_(state),
        targets_(targets),
        scores_(scores),
        limits_(limits),
        y_(static_cast<size_t>(terms.columns())) {
    if (rows) rows_ = *rows;
    if (wanted) wanted_ = *wanted;
    auto& k = k_ = lane_of(program_, frame_, terms_, ring, state_, stepper);
    require(has(targets.center, k.columns) && has(targets.spread, k.columns) &&
                has(scores, k.columns) && has(limits, k.columns),
            "one number per output");
    require(
        (!rows || rows->columns() == k.d - k.codes) && (!wanted || wanted->columns() == k.columns),
        "the moments need one number per column");
    k.rows = 1;
    k.y = y_.data();
    k.weight = &weight_;
    k.eta = &eta_;
    k.lam = &lam_;
    k.oldest = &oldest_;
    k.score = scores_.data();
    k.limit = limits_.data();
    k.kept = &kept_;
  }
  One(const One&) = delete;  // it points into itself

  // Learns trial `t` at rate `eta` with regularisation `lam`; terms born before `oldest` go, and
  // the moments fade. False if this row is not for here, nothing changed.
  bool learn(const In<T>& x, double y, int64_t t, double eta, double lam, int64_t oldest,
             double fade) {
    return k_.columns == 1 && take(x, &y, t, eta, lam, oldest, fade);
  }
  bool learn_all(const In<T>& x, const In<double>& y, int64_t t, double eta, double lam,
                 int64_t oldest, double fade) {
    return static_cast<int64_t>(y.size()) == k_.columns &&
           take(x, y.data(), t, eta, lam, oldest, fade);
  }

  // Leaves the scores of a row as things are; false if it is not for here.
  bool look(const In<T>& x) {
    if (!fits(x, k_.d)) return false;
    k_.x = x.data();
    if (!look_at(k_)) return false;
    return in_raw_units();
  }

  double score() const { return k_.score[0]; }
  int64_t head() const { return k_.head; }
  int64_t count() const { return k_.count; }

 private:
  bool take(const In<T>& x, const double* y, int64_t t, double eta, double lam, int64_t oldest,
            double fade) {
    if (!fits(x, k_.d)) return false;
    if (k_.budget != onkel::BudgetCode::kOldest && k_.count + 1 >= k_.cap)
      return false;  // a window that this row may fill is brought down elsewhere
    for (int64_t c = 0; c < k_.columns; ++c) {
      const double scale = std::fabs(k_.state[c * onkel::kFields + onkel::kFieldScale]);
      if (!(std::fabs(y[c]) <= 1e150) || scale < 1e-3 || scale > 1e3)
        return false;  // far: to be folded elsewhere
      y_[static_cast<size_t>(c)] = (y[c] - targets_.center.data()[c]) / targets_.spread.data()[c];
    }
    k_.x = x.data();
    k_.first_trial = t;
    eta_ = eta;
    lam_ = lam;
    oldest_ = oldest;
    run(k_);
    if (k_.done != 1) return false;
    if (rows_) rows_->take(x.data() + k_.codes, fade);
    if (wanted_) wanted_->take(y, fade);
    in_raw_units();
    return true;
  }

  bool in_raw_units() {
    bool fine = true;
    for (int64_t c = 0; c < k_.columns; ++c) {
      const double spread = targets_.spread.data()[c];
      k_.score[c] = targets_.center.data()[c] + spread * k_.score[c];
      fine &= std::isfinite(k_.score[c]);
    }
    return fine;
  }

  Program program_;
  Frame<T> frame_;
  Terms<T> terms_;
  Out<double> state_;
  Targets targets_;
  Out<double> scores_, limits_;
  std::vector<double> y_;
  onkel::Lane<T> k_{};
  double eta_ = 0, lam_ = 0, weight_ = 1;
  int64_t oldest_ = 0;
  uint8_t kept_ = 0;
  std::optional<Moments> rows_, wanted_;
};

template <class T>
void bind_rows(nb::module_& m) {
  nb::class_<Block<T>>(m, named<T>("Block").c_str())
      .def(nb::init<int64_t, const In<T>&, const In<double>&, const In<double>&, const In<double>&,
                    const In<double>&, const In<int64_t>&>(),
           "first_trial"_a, "x"_a, "y"_a, "weight"_a, "eta"_a, "lam"_a, "oldest"_a);
  m.def("lane", &lane<T>, "program"_a, "frame"_a, "terms"_a, "ring"_a, written("state"),
        "stepper"_a, "block"_a, "out"_a, "threads"_a);
  nb::class_<One<T>>(m, named<T>("One").c_str())
      .def(nb::init<const Program&, const Frame<T>&, const Terms<T>&, const Ring&,
                    const Out<double>&, const Stepper&, const Targets&, const Moments*,
                    const Moments*, const Out<double>&, const Out<double>&>(),
           "program"_a, "frame"_a, "terms"_a, "ring"_a, written("state"), "stepper"_a, "targets"_a,
           "rows"_a.none(), "wanted"_a.none(), written("scores"), written("limits"))
      .def("learn", &One<T>::learn, nb::arg("x").noconvert(), "y"_a, "t"_a, "eta"_a, "lam"_a,
           "oldest"_a, "fade"_a)
      .def("learn_all", &One<T>::learn_all, nb::arg("x").noconvert(), nb::arg("y").noconvert(),
           "t"_a, "eta"_a, "lam"_a, "oldest"_a, "fade"_a)
      .def("look", &One<T>::look, nb::arg("x").noconvert())
      .def_prop_ro("score", &One<T>::score)
      .def_prop_ro("head", &One<T>::head)
      .def_prop_ro("count", &One<T>::count);
}

}  // namespace

void bind_lane(nb::module_& m) {
  nb::class_<BlockOutput>(m, "BlockOutput")
      .def(
          "__init__",
          [](BlockOutput* at, const Out<double>& score, const Out<double>& limit,
             const Out<uint8_t>& kept) { new (at) BlockOutput{score, limit, kept}; },
          written("score"), written("limit"), written("kept"));
  nb::class_<Targets>(m, "Targets")
      .def(
          "__init__",
          [](Targets* at, const In<double>& center, const In<double>& spread) {
            new (at) Targets{center, spread};
          },
          "center"_a, "spread"_a);
  bind_rows<float>(m);
  bind_rows<double>(m);
}
