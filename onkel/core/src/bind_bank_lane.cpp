// The fast lane of a bank for Python: many rows in one call, and single rows for which everything
// that a call needs is bound once.
#include <optional>

#include "bind_bank.hpp"
#include "bind_lane.hpp"
#include "bind_plan.hpp"

namespace {

template <class T>
void run(onkel::BankLane<T>& k) {
  if constexpr (sizeof(T) == 4)
    onkel::current_table().bank_lane_f(k);
  else
    onkel::current_table().bank_lane_d(k);
}

template <class T>
bool look_at(onkel::BankLane<T>& k) {
  if constexpr (sizeof(T) == 4)
    return onkel::current_table().bank_look_f(k);
  else
    return onkel::current_table().bank_look_d(k);
}

// The members of a bank over one ring of terms.
struct Members {
  Members(const Programs& programs, const std::vector<Stepper>& steppers,
          const std::vector<int64_t>& kernels, int64_t outputs)
      : programs(programs), outputs(outputs) {
    require(!steppers.empty() && steppers.size() == kernels.size(), "one kernel per member");
    require(outputs > 0 && this->programs.ends.back() == outputs * whole(kernels.size()),
            "one column per member and output");
    for (size_t i = 0; i < kernels.size(); ++i) {
      require(kernels[i] >= 0 && kernels[i] < whole(programs.of.size()), "no such kernel");
      require(!steppers[i].needs_norm, "a bank keeps no norms");
      list.push_back({steppers[i].loss, steppers[i].rule, steppers[i].intercept, kernels[i]});
    }
  }

  Programs programs;
  std::vector<onkel::BankMember> list;
  int64_t outputs;
};

// All that a bank is between two refreshes of its frame.
template <class T>
onkel::BankLane<T> bank_lane_of(const Members& members, const Frame<T>& frame,
                                const Terms<T>& terms, const Ring& ring, const Out<double>& state) {
  onkel::BankLane<T> k{};
  const Stepper unused{{}, {}, false, false};
  static_cast<onkel::Lane<T>&>(k) =
      lane_of(members.programs.of[0], frame, terms, ring, state, unused);
  require(k.columns == members.programs.ends.back(), "one column per member and output");
  k.programs = members.programs.view();
  k.members = members.list.data();
  k.sharing = whole(members.list.size());
  k.outputs = members.outputs;
  return k;
}

// Rows as they came, and what goes with each: eta and lam by member.
template <class T>
struct BankBlock {
  BankBlock(int64_t first_trial, const In<T>& x, const In<double>& y, const In<double>& weight,
            const In<double>& eta, const In<double>& lam)
      : first_trial(first_trial), x(x), y(y), weight(weight), eta(eta), lam(lam) {
    require(x.ndim() == 2 && y.ndim() == 2 && y.shape(0) == x.shape(0), "x and y must be matrices");
    require(has(weight, whole(x.shape(0))) && eta.ndim() == 2 && lam.size() == eta.size() &&
                eta.shape(1) == x.shape(0),
            "one weight per row, one rate per member and row");
  }

  int64_t first_trial;
  In<T> x;
  In<double> y, weight, eta, lam;
};

// Returns how many rows were learned; the ring moves on with them.
template <class T>
int64_t bank_lane(const Members& members, const Frame<T>& frame, const Terms<T>& terms, Ring& ring,
                  const Out<double>& state, const BankBlock<T>& block, const BlockOutput& out,
                  int64_t at_once, int threads) {
  auto k = bank_lane_of(members, frame, terms, ring, state);
  k.at_once = at_once;
  k.rows = k.stride = whole(block.x.shape(0));
  require(whole(block.x.shape(1)) == k.d && whole(block.y.shape(1)) == k.outputs &&
              whole(block.eta.shape(0)) == k.sharing,
          "the rows do not fit the bank");
  hand_over(k, block, out, threads);
  nb::gil_scoped_release release;
  run(k);
  ring.head = k.head;
  ring.count = k.count;
  return k.done;
}

// A bank between two refreshes of its frame, which takes rows one by one.
template <class T>
class BankOne {
 public:
  // As One in bind_lane.cpp; targets and wanted: of all columns.
  BankOne(const Members& members, const Frame<T>& frame, const Terms<T>& terms, const Ring& ring,
          const Out<double>& state, const Targets& targets, const Moments* rows,
          const Moments* wanted, const Out<double>& scores, const Out<double>& limits)
      : members_(members),
        frame_(frame),
        terms_(terms),
        state_(state),
        targets_(targets),
        scores_(scores),
        limits_(limits),
        y_(static_cast<size_t>(members.outputs)),
        all_(static_cast<size_t>(terms.columns())) {
    if (rows) rows_ = *rows;
    if (wanted) wanted_ = *wanted;
    auto& k = k_ = bank_lane_of(members_, frame_, terms_, ring, state_);
    require(has(targets.center, k.columns) && has(targets.spread, k.columns) &&
                has(scores, k.columns) && has(limits, k.columns),
            "one number per output");
    require(
        (!rows || rows->columns() == k.d - k.codes) && (!wanted || wanted->columns() == k.columns),
        "the moments need one number per column");
    k.rows = 1;
    k.y = y_.data();
    k.weight = &weight_;
    k.score = scores_.data();
    k.limit = limits_.data();
    k.kept = &kept_;
  }
  BankOne(const BankOne&) = delete;  // it points into itself

  // The rates of the trials from `first` on, [members][trials].
  void plan(int64_t first, const In<double>& eta, const In<double>& lam) {
    plan_.set(first, eta, lam, k_.sharing);
  }

  // Learns trial `t`; false if this row is not for here, nothing changed.
  bool learn(const In<T>& x, const In<double>& y, int64_t t) {
    if (!fits(x, k_.d) || !has(y, k_.outputs) || !plan_.holds(t) || k_.count >= k_.cap)
      return false;
    if (!take_targets(y.data())) return false;
    keep();
    k_.x = x.data();
    k_.first_trial = t;
    k_.eta = plan_.eta.data() + (t - plan_.first);
    k_.lam = plan_.lam.data() + (t - plan_.first);
    k_.stride = plan_.count();
    kept_ = 0;
    run(k_);
    if (k_.done != 1) return false;
    if (rows_) rows_->take(x.data() + k_.codes, 1.0);
    if (wanted_) wanted_->take(all_.data(), 1.0);
    in_raw_units();
    return true;
  }

  // Leaves the scores of a row as things are; false if it is not for here.
  bool look(const In<T>& x) {
    if (!fits(x, k_.d)) return false;
    k_.x = x.data();
    return look_at(k_) && in_raw_units();
  }

  // Puts back what the last row that was learned has changed.
  void undo() {
    std::copy(state_was_.begin(), state_was_.end(), k_.state);
    if (rows_) put_back(*rows_, rows_was_);
    if (wanted_) put_back(*wanted_, wanted_was_);
    if (!kept_) return;
    const int64_t slot = (k_.head + --k_.count) % (k_.capacity * onkel::kLanes);
    const int64_t first = slot / onkel::kLanes * k_.columns * onkel::kLanes + slot % onkel::kLanes;
    for (int64_t c = 0; c < k_.columns; ++c)
      k_.coef[first + c * onkel::kLanes] = k_.weights[first + c * onkel::kLanes] = 0;
    kept_ = 0;
  }

  // Some points have gone: where they begin now, and how many there are.
  void moved(int64_t head, int64_t count) {
    require(count >= 0 && count <= k_.cap && head >= 0 && head < k_.capacity * onkel::kLanes,
            "the ring reaches beyond its terms");
    k_.head = head;
    k_.count = count;
  }

  int64_t count() const { return k_.count; }

 private:
  void keep() {
    state_was_.assign(k_.state, k_.state + k_.columns * onkel::kFields);
    if (rows_) keep(*rows_, rows_was_);
    if (wanted_) keep(*wanted_, wanted_was_);
  }
  static void keep(const Moments& from, std::vector<double>& to) {
    const size_t d = from.mean.size();
    to.resize(3 * d);
    std::copy_n(from.seen.data(), d, to.data());
    std::copy_n(from.mean.data(), d, to.data() + d);
    std::copy_n(from.variance.data(), d, to.data() + 2 * d);
  }
  static void put_back(Moments& to, const std::vector<double>& from) {
    const size_t d = to.mean.size();
    std::copy_n(from.data(), d, to.seen.data());
    std::copy_n(from.data() + d, d, to.mean.data());
    std::copy_n(from.data() + 2 * d, d, to.variance.data());
  }
  // Standardises the targets; false if one is too large, or a scale is to be folded elsewhere.
  bool take_targets(const double* y) {
    for (int64_t c = 0; c < k_.columns; ++c) {
      const double scale = std::fabs(k_.state[c * onkel::kFields + onkel::kFieldScale]);
      const int64_t o = c % k_.outputs;
      if (!(std::fabs(y[o]) <= 1e150) || scale < 1e-3 || scale > 1e3) return false;
      all_[static_cast<size_t>(c)] = y[o];
    }
    for (int64_t o = 0; o < k_.outputs; ++o)
      y_[static_cast<size_t>(o)] = (y[o] - targets_.center.data()[o]) / targets_.spread.data()[o];
    return true;
  }
  bool in_raw_units() {
    bool fine = true;
    for (int64_t c = 0; c < k_.columns; ++c) {
      k_.score[c] = targets_.center.data()[c] + targets_.spread.data()[c] * k_.score[c];
      fine &= std::isfinite(k_.score[c]);
    }
    return fine;
  }

  Members members_;
  Frame<T> frame_;
  Terms<T> terms_;
  Out<double> state_;
  Targets targets_;
  Out<double> scores_, limits_;
  std::vector<double> y_, all_, state_was_, rows_was_, wanted_was_;
  onkel::BankLane<T> k_{};
  Plan plan_;
  double weight_ = 1;
  uint8_t kept_ = 0;
  std::optional<Moments> rows_, wanted_;
};

template <class T>
void bind_type(nb::module_& m) {
  nb::class_<BankBlock<T>>(m, named<T>("BankBlock").c_str())
      .def(nb::init<int64_t, const In<T>&, const In<double>&, const In<double>&, const In<double>&,
                    const In<double>&>(),
           "first_trial"_a, "x"_a, "y"_a, "weight"_a, "eta"_a, "lam"_a);
  m.def("bank_lane", &bank_lane<T>, "members"_a, "frame"_a, "terms"_a, "ring"_a, written("state"),
        "block"_a, "out"_a, "at_once"_a, "threads"_a);
  nb::class_<BankOne<T>>(m, named<T>("BankOne").c_str())
      .def(nb::init<const Members&, const Frame<T>&, const Terms<T>&, const Ring&,
                    const Out<double>&, const Targets&, const Moments*, const Moments*,
                    const Out<double>&, const Out<double>&>(),
           "members"_a, "frame"_a, "terms"_a, "ring"_a, written("state"), "targets"_a,
           "rows"_a.none(), "wanted"_a.none(), written("scores"), written("limits"))
      .def("plan", &BankOne<T>::plan, "first"_a, "eta"_a, "lam"_a)
      .def("learn", &BankOne<T>::learn, nb::arg("x").noconvert(), nb::arg("y").noconvert(), "t"_a)
      .def("look", &BankOne<T>::look, nb::arg("x").noconvert())
      .def("undo", &BankOne<T>::undo)
      .def("moved", &BankOne<T>::moved, "head"_a, "count"_a)
      .def_prop_ro("count", &BankOne<T>::count);
}

}  // namespace

void bind_bank_lane(nb::module_& m) {
  nb::class_<Members>(m, "Members")
      .def(nb::init<const Programs&, const std::vector<Stepper>&, const std::vector<int64_t>&,
                    int64_t>(),
           "programs"_a, "steppers"_a, "kernels"_a, "outputs"_a);
  bind_type<float>(m);
  bind_type<double>(m);
}
