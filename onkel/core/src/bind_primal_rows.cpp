// Single rows for weights, of several settings in one call: it is first tried, and what came of it
// taken over when everything else of the same row has gone well.
#include <optional>

#include "bind_codes.hpp"
#include "bind_lane.hpp"
#include "bind_plan.hpp"

namespace {

// The weights that one row's codes touch, taken out of the tables to be tried, and put back.
class Touched {
 public:
  Touched(const CodeTable& table, int64_t columns) : table_(table) {
    require(table.columns() == columns && !table.averages(), "the weights of codes do not fit");
    for (auto* ids : {&at_, &local_, &taken_}) ids->resize(static_cast<size_t>(count()));
    marks_.resize(table.marks.size());
    weights_.resize(static_cast<size_t>(columns * count()));
  }
  int64_t count() const { return table_.count(); }

  // What `primal` reads and changes of a row of features.
  onkel::Codes take(const double* x) {
    fill_buckets(x, 1, count(), count(), table_.buckets(), at_.data());
    size_ = 0;
    for (size_t j = 0; j < at_.size(); ++j) local_[j] = place(at_[j]);
    const int64_t n = table_.columns();
    for (int64_t i = 0; i < size_; ++i) std::copy_n(stored(i), n, weights_.data() + i * n);
    std::copy_n(table_.marks.data(), marks_.size(), marks_.data());
    return {count(),       size_,           n,       table_.buckets(), false,
            local_.data(), weights_.data(), nullptr, marks_.data()};
  }

  // Takes over what has become of them; `state` is the outputs' as it is now.
  void put_back(double* state) {
    const int64_t n = table_.columns();
    for (int64_t i = 0; i < size_; ++i) std::copy_n(weights_.data() + i * n, n, stored(i));
    std::copy_n(marks_.data(), marks_.size(), table_.marks.data());
    onkel::current_table().fold(table_.view(nullptr), state);
  }

 private:
  // The number of a bucket among those that the row touches.
  int32_t place(int32_t bucket) {
    if (bucket < 0) return bucket;
    for (int32_t i = 0; i < size_; ++i)
      if (taken_[static_cast<size_t>(i)] == bucket) return i;
    taken_[static_cast<size_t>(size_)] = bucket;
    return static_cast<int32_t>(size_++);
  }
  double* stored(int64_t i) {
    return table_.weights.data() + taken_[static_cast<size_t>(i)] * table_.columns();
  }

  CodeTable table_;
  std::vector<int32_t> at_, local_, taken_;
  std::vector<double> weights_, marks_;
  int64_t size_ = 0;
};

// One setting: its weights over standardised features, and where they are to go.
template <class T>
class Weights {
 public:
  Weights(const Frame<T>& frame, const Out<double>& state, const Out<double>& theta,
          const Stepper& stepper, double p, const Targets& targets, const Moments* rows,
          const Moments* wanted, const CodeTable* codes)
      : frame_(frame),
        state_(state),
        theta_(theta),
        targets_(targets),
        d_(frame.features()),
        columns_(whole(state.size()) / onkel::kFields) {
    if (codes) codes_.emplace(*codes, columns_);
    require(frame.codes() == (codes ? codes->count() : 0) && (!codes || p == 2),
            "the weights of codes do not fit");
    require(has(state, columns_ * onkel::kFields) && has(theta, columns_ * (frame.numbers() + 1)),
            "state and theta need one row per output");
    require(has(targets.center, columns_) && has(targets.spread, columns_),
            "one number per output");
    require(
        (!rows || rows->columns() == frame.numbers()) && (!wanted || wanted->columns() == columns_),
        "the moments need one number per column");
    if (rows) rows_ = *rows;
    if (wanted) wanted_ = *wanted;
    x_.resize(size(d_));
    y_.resize(size(columns_));
    limit_.resize(size(columns_));
    new_state_.resize(state.size());
    new_theta_.resize(theta.size());
    in_ = {1,
           columns_,
           frame.numbers(),
           x_.data(),
           y_.data(),
           &weight_,
           &eta_,
           &lam_,
           stepper.loss,
           stepper.rule,
           p,
           stepper.intercept,
           stepper.needs_norm,
           false};
  }
  Weights(const Weights&) = delete;  // it points into itself

  int64_t features() const { return d_; }
  int64_t columns() const { return columns_; }

  // Makes the step on copies, and leaves the scores before it; false if that is not for here.
  bool attempt(const T* x, const double* y, double eta, double lam, double* scores) {
    eta_ = eta;
    lam_ = lam;
    double square = 0;
    for (int64_t j = 0; j < frame_.codes(); ++j) {
      x_[size(j)] = static_cast<double>(x[j]);
      if (!is_code(x_[size(j)])) return false;
    }
    for (int64_t j = frame_.codes(); j < d_; ++j) {
      const double v =
          (static_cast<double>(x[j]) - frame_.center.data()[j]) * frame_.unit.data()[j];
      x_[size(j)] = frame_.width.data()[j] * (v - frame_.shift.data()[j]);
      square += x_[size(j)] * x_[size(j)];
    }
    if (!std::isfinite(square)) return false;
    for (int64_t c = 0; c < columns_; ++c) {
      if (!(std::fabs(y[c]) <= 1e150)) return false;
      y_[size(c)] = (y[c] - targets_.center.data()[c]) / targets_.spread.data()[c];
    }
    std::copy_n(state_.data(), state_.size(), new_state_.data());
    std::copy_n(theta_.data(), theta_.size(), new_theta_.data());
    onkel::PrimalOutput out{new_state_.data(), new_theta_.data(), nullptr, scores,
                            nullptr,           limit_.data(),     -1,      {}};
    if (codes_) out.codes = codes_->take(x_.data());
    onkel::current_table().primal(in_, out);
    bool fine = true;
    for (int64_t c = 0; c < columns_; ++c) {
      scores[c] = targets_.center.data()[c] + targets_.spread.data()[c] * scores[c];
      fine &= std::isfinite(scores[c]);
    }
    learns_ = out.bad_row < 0;
    for (const double w : new_theta_) learns_ &= std::fabs(w) < onkel::kLargest;
    return fine;
  }
  bool learns() const { return learns_; }

  // Takes over what the last attempt has made.
  void commit(const T* x, const double* y) {
    std::copy_n(new_state_.data(), state_.size(), state_.data());
    std::copy_n(new_theta_.data(), theta_.size(), theta_.data());
    if (codes_) codes_->put_back(state_.data());
    if (rows_) rows_->take(x + frame_.codes(), 1.0);
    if (wanted_) wanted_->take(y, 1.0);
  }

 private:
  static size_t size(int64_t n) { return static_cast<size_t>(n); }

  Frame<T> frame_;
  Out<double> state_, theta_;
  Targets targets_;
  int64_t d_, columns_;
  std::optional<Moments> rows_, wanted_;
  std::optional<Touched> codes_;
  std::vector<double> x_, y_, limit_, new_state_, new_theta_;
  double eta_ = 0, lam_ = 0, weight_ = 1;
  bool learns_ = false;
  onkel::PrimalInput in_{};
};

// Several settings on the same rows; scores stand one setting after another.
template <class T>
class PrimalRows {
 public:
  PrimalRows(const std::vector<Weights<T>*>& settings, const Out<double>& scores)
      : settings_(settings), scores_(scores) {
    require(!settings.empty(), "at least one setting");
    outputs_ = settings[0]->columns();
    d_ = settings[0]->features();
    require(has(scores, outputs_ * whole(settings.size())), "one score per setting and output");
    for (const auto* one : settings)
      require(one->columns() == outputs_ && one->features() == d_, "settings of one size");
    zero_.resize(static_cast<size_t>(outputs_));
    y_ = zero_;
  }

  // The rates of the trials from `first` on, [settings][trials].
  void plan(int64_t first, const In<double>& eta, const In<double>& lam) {
    plan_.set(first, eta, lam, whole(settings_.size()));
  }

  // Makes the step of trial `t`, changing nothing; false if this row is not for here.
  bool attempt(const In<T>& x, const In<double>& y, int64_t t) {
    if (!fits(x, d_) || !has(y, outputs_) || !plan_.holds(t)) return false;
    bool fine = true;
    for (size_t i = 0; i < settings_.size(); ++i) {
      const size_t at =
          i * static_cast<size_t>(plan_.count()) + static_cast<size_t>(t - plan_.first);
      fine = fine && take(i, x, y.data(), plan_.eta[at], plan_.lam[at]) && settings_[i]->learns();
    }
    if (!fine) return false;
    x_ = x;
    std::copy_n(y.data(), y.size(), y_.data());
    return true;
  }

  // Takes over what the last attempt has made.
  void commit() {
    require(x_.is_valid(), "nothing was tried");
    for (auto* one : settings_) one->commit(x_.data(), y_.data());
    x_ = In<T>();
  }

  // Leaves the scores of a row as things are; false if it is not for here.
  bool look(const In<T>& x) {
    if (!fits(x, d_)) return false;
    bool fine = true;
    for (size_t i = 0; i < settings_.size(); ++i) fine = fine && take(i, x, zero_.data(), 0, 0);
    return fine;
  }

 private:
  bool take(size_t i, const In<T>& x, const double* y, double eta, double lam) {
    return settings_[i]->attempt(x.data(), y, eta, lam,
                                 scores_.data() + i * static_cast<size_t>(outputs_));
  }

  std::vector<Weights<T>*> settings_;
  Out<double> scores_;
  In<T> x_;
  int64_t outputs_, d_;
  std::vector<double> zero_, y_;
  Plan plan_;
};

template <class T>
void bind_type(nb::module_& m) {
  nb::class_<Weights<T>>(m, named<T>("Weights").c_str())
      .def(nb::init<const Frame<T>&, const Out<double>&, const Out<double>&, const Stepper&, double,
                    const Targets&, const Moments*, const Moments*, const CodeTable*>(),
           "frame"_a, written("state"), written("theta"), "stepper"_a, "p"_a, "targets"_a,
           "rows"_a.none(), "wanted"_a.none(), "codes"_a.none());
  nb::class_<PrimalRows<T>>(m, named<T>("PrimalRows").c_str())
      .def(nb::init<const std::vector<Weights<T>*>&, const Out<double>&>(), "settings"_a,
           written("scores"), nb::keep_alive<1, 2>())
      .def("plan", &PrimalRows<T>::plan, "first"_a, "eta"_a, "lam"_a)
      .def("attempt", &PrimalRows<T>::attempt, nb::arg("x").noconvert(), nb::arg("y").noconvert(),
           "t"_a)
      .def("commit", &PrimalRows<T>::commit)
      .def("look", &PrimalRows<T>::look, nb::arg("x").noconvert());
}

}  // namespace

void bind_primal_rows(nb::module_& m) {
  bind_type<float>(m);
  bind_type<double>(m);
}
