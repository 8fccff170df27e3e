// The fast lane for Python: many rows in one call, and single rows for which everything that a call
// needs is bound once, so that the call itself is cheap.
#include <cmath>

#include "bind.hpp"

namespace {

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

template <class T>
using FrameTuple = std::tuple<In<double>, In<double>, In<double>, In<double>, In<T>>;
template <class T>
using TermsTuple = std::tuple<Out<T>, Out<T>, Out<double>, Out<T>, Out<int64_t>>;

// frame = (center, unit, width, shift, width in the rows' type), terms = (panels, norms, coef,
// weights, births), ring = (head, count, cap), data = (x, y, weight, eta, lam, oldest), out =
// (score, limit, kept). Returns how many rows were learned, and the ring's new head and count.
template <class T>
std::tuple<int64_t, int64_t, int64_t> lane(
    const std::vector<NodeTuple>& program, const FrameTuple<T>& frame, bool invariant, double clip,
    const TermsTuple<T>& terms, std::tuple<int64_t, int64_t, int64_t> ring,
    const Out<double>& state, const LossTuple& loss, const RuleTuple& rule, bool intercept,
    bool needs_norm, int threads, int64_t first_trial,
    const std::tuple<In<T>, In<double>, In<double>, In<double>, In<double>, In<int64_t>>& data,
    const std::tuple<Out<double>, Out<double>, Out<uint8_t>>& out) {
  const auto nodes = nodes_of(program);
  const auto& [center, unit, width, shift, width_t] = frame;
  const auto& [panels, norms, coef, weights, births] = terms;
  const auto& [x, y, weight, eta, lam, oldest] = data;
  const auto& [score, limit, kept] = out;
  onkel::Lane<T> k{};
  require(x.ndim() == 2 && y.ndim() == 2 && panels.ndim() == 3 && coef.ndim() == 3,
          "the lane's arrays have the wrong number of axes");
  const size_t rows = x.shape(0), d = x.shape(1), columns = y.shape(1);
  const size_t capacity = panels.shape(0), slots = capacity * onkel::kLanes;
  require(panels.shape(1) == d && panels.shape(2) == onkel::kLanes && norms.size() == slots &&
              births.size() == slots && coef.shape(0) == capacity && coef.shape(1) == columns &&
              coef.shape(2) == onkel::kLanes && weights.size() == coef.size(),
          "the lane's terms have the wrong size");
  require(center.size() == d && unit.size() == d && width.size() == d && shift.size() == d &&
              width_t.size() == d,
          "the lane's frame has the wrong size");
  require(y.shape(0) == rows && weight.size() == rows && eta.size() == rows && lam.size() == rows &&
              oldest.size() == rows && kept.size() == rows && score.size() == y.size() &&
              limit.size() == y.size() && state.size() == columns * onkel::kFields,
          "the lane's rows have the wrong size");
  const auto [head, count, cap] = ring;
  require(head >= 0 && count >= 0 && count <= static_cast<int64_t>(slots) && cap >= 1 &&
              head < std::max<int64_t>(static_cast<int64_t>(slots), 1),
          "the lane's ring is not one");
  k = {{nodes.data(), static_cast<int>(nodes.size())},
       static_cast<int64_t>(d),
       static_cast<int64_t>(columns),
       center.data(),
       unit.data(),
       width.data(),
       shift.data(),
       width_t.data(),
       invariant,
       clip,
       panels.data(),
       norms.data(),
       coef.data(),
       weights.data(),
       births.data(),
       static_cast<int64_t>(capacity),
       head,
       count,
       state.data(),
       loss_of(loss),
       rule_of(rule),
       intercept,
       needs_norm,
       static_cast<int64_t>(rows),
       first_trial,
       cap,
       x.data(),
       y.data(),
       weight.data(),
       eta.data(),
       lam.data(),
       oldest.data(),
       score.data(),
       limit.data(),
       kept.data(),
       threads,
       0};
  nb::gil_scoped_release release;
  run(k);
  return {k.done, k.head, k.count};
}

// Running moments (onkel/scaling.py), updated in place; absent where none are kept.
struct Running {
  Out<double> seen, mean, variance;
  double horizon;
  bool plain, on;

  template <class T>
  void update(const T* x, size_t n, double fade) {
    if (on) take_moments(x, n, fade, plain, horizon, seen.data(), mean.data(), variance.data());
  }
};

using RunningTuple = std::tuple<Out<double>, Out<double>, Out<double>, double, bool, bool>;

Running running_of(const RunningTuple& t) {
  const auto& [seen, mean, variance, horizon, plain, on] = t;
  return {seen, mean, variance, horizon, plain, on};
}

// A learner between two refreshes of its frame, which takes rows one by one.
template <class T>
class One {
 public:
  // As for `lane`; targets = (centers, spreads) of the standardisation, 0 and 1 without; out =
  // (scores, limits), where each row's are left, one per output.
  One(const std::vector<NodeTuple>& program, const FrameTuple<T>& frame, bool invariant,
      double clip, const TermsTuple<T>& terms, std::tuple<int64_t, int64_t, int64_t> ring,
      const Out<double>& state, LossTuple loss, RuleTuple rule, bool intercept, bool needs_norm,
      const std::tuple<In<double>, In<double>>& targets, const RunningTuple& rows,
      const RunningTuple& wanted, const std::tuple<Out<double>, Out<double>>& out)
      : frame_(frame),
        terms_(terms),
        targets_(targets),
        out_(out),
        state_(state),
        rows_(running_of(rows)),
        wanted_(running_of(wanted)) {
    nodes_ = nodes_of(program);
    auto& k = k_;
    const auto& panels = std::get<0>(terms_);
    const auto& coef = std::get<2>(terms_);
    require(panels.ndim() == 3 && coef.ndim() == 3, "terms have three axes");
    const size_t columns = coef.shape(1);
    require(state.size() == columns * onkel::kFields && std::get<0>(targets_).size() == columns &&
                std::get<1>(targets_).size() == columns && std::get<0>(out_).size() == columns &&
                std::get<1>(out_).size() == columns,
            "one number per output");
    k.program = {nodes_.data(), static_cast<int>(nodes_.size())};
    k.d = static_cast<int64_t>(panels.shape(1));
    k.columns = static_cast<int64_t>(columns);
    k.center = std::get<0>(frame_).data();
    k.unit = std::get<1>(frame_).data();
    k.width = std::get<2>(frame_).data();
    k.shift = std::get<3>(frame_).data();
    k.width_t = std::get<4>(frame_).data();
    k.invariant = invariant;
    k.clip = clip;
    k.panels = panels.data();
    k.norms = std::get<1>(terms_).data();
    k.coef = coef.data();
    k.weights = std::get<3>(terms_).data();
    k.births = std::get<4>(terms_).data();
    k.capacity = static_cast<int64_t>(panels.shape(0));
    std::tie(k.head, k.count, k.cap) = ring;
    k.state = state_.data();
    k.loss = loss_of(loss);
    k.rule = rule_of(rule);
    k.intercept = intercept;
    k.needs_norm = needs_norm;
    k.rows = 1;
    y_.resize(columns);
    k.y = y_.data();
    k.weight = &weight_;
    k.eta = &eta_;
    k.lam = &lam_;
    k.oldest = &oldest_;
    k.score = std::get<0>(out_).data();
    k.limit = std::get<1>(out_).data();
    k.kept = &kept_;
  }

  // Learns trial `t` at rate `eta` with regularisation `lam`; terms born before `oldest` go, and
  // the moments fade. False
  // if this row is not for here, nothing changed.
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
    if (!fits(x)) return false;
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
    if (!fits(x)) return false;
    for (int64_t c = 0; c < k_.columns; ++c) {
      const double scale = std::fabs(k_.state[c * onkel::kFields + onkel::kFieldScale]);
      if (!(std::fabs(y[c]) <= 1e150) || scale < 1e-3 || scale > 1e3)
        return false;  // far: to be folded elsewhere
      y_[static_cast<size_t>(c)] =
          (y[c] - std::get<0>(targets_).data()[c]) / std::get<1>(targets_).data()[c];
    }
    k_.x = x.data();
    k_.first_trial = t;
    eta_ = eta;
    lam_ = lam;
    oldest_ = oldest;
    run(k_);
    if (k_.done != 1) return false;
    rows_.update(x.data(), x.size(), fade);
    wanted_.update(y, static_cast<size_t>(k_.columns), fade);
    in_raw_units();
    return true;
  }

  bool in_raw_units() {
    bool fine = true;
    for (int64_t c = 0; c < k_.columns; ++c) {
      const double spread = std::get<1>(targets_).data()[c];
      k_.score[c] = std::get<0>(targets_).data()[c] + spread * k_.score[c];
      fine &= std::isfinite(k_.score[c]);
    }
    return fine;
  }

  bool fits(const In<T>& x) const {
    if (x.ndim() != 1 || static_cast<int64_t>(x.size()) != k_.d) return false;
    const T most = static_cast<T>(std::min(1e152, 3e38 * (sizeof(T) == 4 ? 1 : 1e300)));
    bool fine = true;
    for (size_t j = 0; j < x.size(); ++j) fine &= std::fabs(x.data()[j]) <= most;
    return fine;
  }

  FrameTuple<T> frame_;
  TermsTuple<T> terms_;
  std::tuple<In<double>, In<double>> targets_;
  std::tuple<Out<double>, Out<double>> out_;
  Out<double> state_;
  std::vector<onkel::Node> nodes_;
  std::vector<double> y_;
  onkel::Lane<T> k_{};
  double eta_ = 0, lam_ = 0, weight_ = 1;
  int64_t oldest_ = 0;
  uint8_t kept_ = 0;
  Running rows_, wanted_;
};

template <class T>
void bind_class(nb::module_& m, const char* name) {
  using Frame = FrameTuple<T>;
  using Terms = TermsTuple<T>;
  nb::class_<One<T>>(m, name)
      .def(nb::init<const std::vector<NodeTuple>&, const Frame&, bool, double, const Terms&,
                    std::tuple<int64_t, int64_t, int64_t>, const Out<double>&, LossTuple, RuleTuple,
                    bool, bool, const std::tuple<In<double>, In<double>>&, const RunningTuple&,
                    const RunningTuple&, const std::tuple<Out<double>, Out<double>>&>())
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
  m.def("lane_f", &lane<float>);
  m.def("lane_d", &lane<double>);
  bind_class<float>(m, "OneF");
  bind_class<double>(m, "OneD");
}
