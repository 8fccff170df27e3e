// One row at a time: everything that a call needs is bound once, so that the call itself is cheap.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <stdexcept>
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

void require(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(std::string("onkel core: ") + what);
}

// Running moments (onkel/scaling.py), updated in place; absent where nothing is standardised.
struct Running {
  Out<double> mean, variance;
  double seen, horizon;
  bool on;

  template <class T>
  void update(const T* x, size_t n) {
    if (!on) return;
    const double share = 1.0 / std::min(seen + 1.0, horizon);
    double *m = mean.data(), *v = variance.data();
    for (size_t j = 0; j < n; ++j) {
      const double delta = static_cast<double>(x[j]) - m[j], move = share * delta;
      m[j] += move;
      v[j] = (1.0 - share) * (v[j] + move * delta);
    }
    seen += 1;
  }
};

using RunningTuple = std::tuple<Out<double>, Out<double>, double, double, bool>;

Running running_of(const RunningTuple& t) {
  const auto& [mean, variance, seen, horizon, on] = t;
  return {mean, variance, seen, horizon, on};
}

// A learner with one output and a constant rate, between two refreshes of its frame.
template <class T>
class One {
 public:
  // As for `lane`; targets = (center, spread) of the standardisation, 0 and 1 without.
  One(const std::vector<NodeTuple>& program,
      const std::tuple<In<double>, In<double>, In<double>, In<double>, In<T>>& frame,
      bool invariant, double clip,
      const std::tuple<Out<T>, Out<T>, Out<double>, Out<T>, Out<int64_t>>& terms,
      std::tuple<int64_t, int64_t, int64_t, int64_t> ring, const Out<double>& state,
      std::tuple<int, double, double> loss,
      std::tuple<int, double, double, double, double, double, double> rule, bool intercept,
      double eta, std::tuple<double, double> targets, const RunningTuple& rows,
      const RunningTuple& wanted)
      : frame_(frame),
        terms_(terms),
        state_(state),
        eta_(eta),
        rows_(running_of(rows)),
        wanted_(running_of(wanted)) {
    for (const auto& [op, a, b, c] : program) nodes_.push_back({op, a, b, c});
    std::tie(center_, spread_) = targets;
    auto& k = k_;
    const auto& panels = std::get<0>(terms_);
    require(panels.ndim() == 3 && state.size() == onkel::kFields, "one row, one output");
    k.program = {nodes_.data(), static_cast<int>(nodes_.size())};
    k.d = static_cast<int64_t>(panels.shape(1));
    k.columns = 1;
    k.center = std::get<0>(frame_).data();
    k.unit = std::get<1>(frame_).data();
    k.width = std::get<2>(frame_).data();
    k.shift = std::get<3>(frame_).data();
    k.width_t = std::get<4>(frame_).data();
    k.invariant = invariant;
    k.clip = clip;
    k.panels = panels.data();
    k.norms = std::get<1>(terms_).data();
    k.coef = std::get<2>(terms_).data();
    k.weights = std::get<3>(terms_).data();
    k.births = std::get<4>(terms_).data();
    k.capacity = static_cast<int64_t>(panels.shape(0));
    std::tie(k.head, k.count, k.cap, age_) = ring;
    k.state = state_.data();
    std::tie(k.loss.code, k.loss.nu, k.loss.extra) = loss;
    auto& r = k.rule;
    std::tie(r.code, r.lambda, r.threshold_rate, r.power, r.support_rate, r.radius, r.extra) = rule;
    k.intercept = intercept;
    k.rows = 1;
    k.y = &y_;
    k.weight = &weight_;
    k.eta = &eta_;
    k.oldest = &oldest_;
    k.score = &score_;
    k.limit = &limit_;
    k.kept = &kept_;
  }

  // Learns trial `t`; false if this row is not for here, nothing changed.
  bool learn(const In<T>& x, double y, int64_t t) {
    const double scale = std::fabs(k_.state[onkel::kFieldScale]);  // far: to be folded elsewhere
    if (!fits(x) || !(std::fabs(y) <= 1e150) || scale < 1e-3 || scale > 1e3) return false;
    k_.x = x.data();
    y_ = (y - center_) / spread_;
    k_.first_trial = t;
    oldest_ = t + 1 - age_;
    if constexpr (sizeof(T) == 4)
      onkel::current_table().lane_f(k_);
    else
      onkel::current_table().lane_d(k_);
    if (k_.done != 1) return false;
    rows_.update(x.data(), x.size());
    wanted_.update(&y, 1);
    return true;
  }

  // The score of a row as things are, NaN if it is not for here.
  double look(const In<T>& x) {
    if (!fits(x)) return NAN;
    k_.x = x.data();
    bool seen;
    if constexpr (sizeof(T) == 4)
      seen = onkel::current_table().look_f(k_);
    else
      seen = onkel::current_table().look_d(k_);
    return seen ? score() : NAN;
  }

  double score() const { return center_ + spread_ * score_; }
  double limit() const { return limit_; }
  int64_t head() const { return k_.head; }
  int64_t count() const { return k_.count; }

 private:
  bool fits(const In<T>& x) const {
    if (x.ndim() != 1 || static_cast<int64_t>(x.size()) != k_.d) return false;
    const T most = static_cast<T>(std::min(1e152, 3e38 * (sizeof(T) == 4 ? 1 : 1e300)));
    bool fine = true;
    for (size_t j = 0; j < x.size(); ++j) fine &= std::fabs(x.data()[j]) <= most;
    return fine;
  }

  std::tuple<In<double>, In<double>, In<double>, In<double>, In<T>> frame_;
  std::tuple<Out<T>, Out<T>, Out<double>, Out<T>, Out<int64_t>> terms_;
  Out<double> state_;
  std::vector<onkel::Node> nodes_;
  onkel::Lane<T> k_{};
  double eta_, center_ = 0, spread_ = 1, y_ = 0, weight_ = 1, score_ = 0, limit_ = 0;
  int64_t oldest_ = 0, age_ = 0;
  uint8_t kept_ = 0;
  Running rows_, wanted_;
};

template <class T>
void bind_class(nb::module_& m, const char* name) {
  using Frame = std::tuple<In<double>, In<double>, In<double>, In<double>, In<T>>;
  using Terms = std::tuple<Out<T>, Out<T>, Out<double>, Out<T>, Out<int64_t>>;
  nb::class_<One<T>>(m, name)
      .def(nb::init<const std::vector<NodeTuple>&, const Frame&, bool, double, const Terms&,
                    std::tuple<int64_t, int64_t, int64_t, int64_t>, const Out<double>&,
                    std::tuple<int, double, double>,
                    std::tuple<int, double, double, double, double, double, double>, bool, double,
                    std::tuple<double, double>, const RunningTuple&, const RunningTuple&>())
      .def("learn", &One<T>::learn, nb::arg("x").noconvert(), "y"_a, "t"_a)
      .def("look", &One<T>::look, nb::arg("x").noconvert())
      .def_prop_ro("score", &One<T>::score)
      .def_prop_ro("limit", &One<T>::limit)
      .def_prop_ro("head", &One<T>::head)
      .def_prop_ro("count", &One<T>::count);
}

}  // namespace

void bind_one(nb::module_& m) {
  bind_class<float>(m, "OneF");
  bind_class<double>(m, "OneD");
}
