// Recursive least squares.
#include <optional>

#include "bind_codes.hpp"
#include "bind_lane.hpp"

namespace {

struct SquaresNumbers {
  double clip, most, horizon, longest;
};

// Learns rows in place; returns the first that is bad, or -1.
int64_t least_squares(const In<double>& x, const In<double>& y, const In<double>& weight,
                      const In<double>& keep, const SquaresNumbers& numbers,
                      const Out<double>& state, const Out<double>& theta, const Out<double>& cov,
                      const Out<double>& score, const Out<double>& limit) {
  require(x.ndim() == 2 && y.ndim() == 2 && x.shape(0) == y.shape(0), "x and y must be matrices");
  const int64_t rows = whole(x.shape(0)), d = whole(x.shape(1)), columns = whole(y.shape(1));
  require(has(weight, rows) && has(keep, rows), "one weight and one number to keep per row");
  require(has(state, columns * onkel::kFields) && has(theta, columns * d) && has(cov, d * d) &&
              has(score, rows * columns) && has(limit, rows * columns),
          "an output array has the wrong size");
  onkel::Squares task{rows,
                      columns,
                      d,
                      x.data(),
                      y.data(),
                      weight.data(),
                      keep.data(),
                      numbers.clip,
                      numbers.most,
                      numbers.horizon,
                      numbers.longest,
                      state.data(),
                      theta.data(),
                      cov.data(),
                      score.data(),
                      limit.data(),
                      -1};
  nb::gil_scoped_release release;
  onkel::current_table().least_squares(task);
  return task.bad_row;
}

// From a row to features: kernel values at points, the row's own numbers, 1. The numbers stand
// around `center` and `shift`, and count for at most `farthest`; there may be none.
template <class T>
struct SquaresFeatures {
  SquaresFeatures(const Program* program, const Frame<T>& frame, const In<T>& points,
                  const In<T>& norms, const In<double>& center, const In<double>& shift,
                  double farthest)
      : frame(frame),
        packed(points.data(), norms.data(), whole(norms.size()), frame.features()),
        center(center),
        shift(shift),
        farthest(farthest),
        count(whole(norms.size())),
        v(static_cast<size_t>(frame.features())),
        q(v.size()) {
    require(has(points, count * frame.features()) && (program || !count), "points and kernel");
    require((has(center, 0) || has(center, frame.numbers())) && shift.size() == center.size(),
            "one number per column");
    if (program) this->program.emplace(*program);
  }
  int64_t size() const { return count + whole(center.size()) + 1; }
  int64_t features() const { return frame.features(); }
  int64_t codes() const { return frame.codes(); }
  int64_t numbers() const { return frame.numbers(); }

  // False if the row has what is no code.
  bool make(const T* x, double* out) {
    for (int64_t j = 0; j < frame.codes(); ++j)
      if (!is_code(static_cast<double>(x[j]))) return false;
    if (count) at_points(x, out);
    const int64_t numbers = whole(center.size()), codes = frame.codes();
    for (int64_t j = 0; j < numbers; ++j) {
      const double at =
          (static_cast<double>(x[codes + j]) - center.data()[j]) * frame.unit.data()[codes + j];
      const double z = frame.width.data()[codes + j] * (at - shift.data()[j]);
      out[count + j] = std::min(std::max(z, -farthest), farthest);
      if (std::isnan(z)) return false;
    }
    out[count + numbers] = 1;
    return true;
  }

 private:
  // As onkel/core/frame.py makes rows ready.
  void at_points(const T* x, double* out) {
    double off = 0, norm = frame.alike();
    for (int64_t j = 0; j < frame.features(); ++j) {
      const double width = frame.width.data()[j], most = frame.clip / width;
      double at = (static_cast<double>(x[j]) - frame.center.data()[j]) * frame.unit.data()[j];
      if (frame.invariant) at = std::min(std::max(at, -most), most);
      const bool code = j < frame.codes();
      const double z = code ? at : width * (at - frame.shift.data()[j]);
      const double own = code ? z : width * z;
      v[static_cast<size_t>(j)] = static_cast<T>(at);
      q[static_cast<size_t>(j)] = static_cast<T>(own);
      off -= own * frame.shift.data()[j];
      if (!code) norm += z * z;
    }
    const T off_t = static_cast<T>(off), norm_t = static_cast<T>(norm);
    const onkel::Queries<T> row{
        q.data(), v.data(),         &off_t,       &norm_t, frame.width_t.data(),
        1,        frame.features(), frame.codes()};
    if constexpr (sizeof(T) == 4)
      onkel::current_table().matrix_f(program->view(), row, packed.panels(), count, out);
    else
      onkel::current_table().matrix_d(program->view(), row, packed.panels(), count, out);
  }

  Frame<T> frame;
  std::optional<Program> program;
  Packed<T> packed;
  In<double> center, shift;
  double farthest;
  int64_t count;
  std::vector<T> v, q;
};

// A learner between two looks at its units and centres, which takes rows one by one: a row is first
// tried, and learned when everything else of the same row has gone well.
template <class T>
class SquaresRow {
 public:
  SquaresRow(const SquaresFeatures<T>& features, const SquaresNumbers& numbers, double keep,
             const Out<double>& state, const Out<double>& theta, const Out<double>& cov,
             const Targets& targets, const Moments* rows, const Moments* wanted,
             const Out<double>& scores, const Out<double>& limits)
      : features_(features),
        state_(state),
        theta_(theta),
        cov_(cov),
        targets_(targets),
        scores_(scores),
        limits_(limits),
        keep_(keep),
        x_(static_cast<size_t>(features.size())),
        y_(scores.size()),
        asked_(scores.size()),
        room_(2 * x_.size()) {
    const int64_t d = features.size(), columns = whole(scores.size());
    require(has(state, columns * onkel::kFields) && has(theta, columns * d) && has(cov, d * d) &&
                has(limits, columns) && has(targets.center, columns) &&
                has(targets.spread, columns),
            "an array has the wrong size");
    require((!rows || rows->columns() == features.numbers()) &&
                (!wanted || wanted->columns() == columns),
            "the moments need one number per column");
    if (rows) rows_ = *rows;
    if (wanted) wanted_ = *wanted;
    task_ = {1,
             columns,
             d,
             x_.data(),
             y_.data(),
             &weight_,
             &keep_,
             numbers.clip,
             numbers.most,
             numbers.horizon,
             numbers.longest,
             state_.data(),
             theta_.data(),
             cov_.data(),
             scores_.data(),
             limits_.data(),
             -1};
  }
  SquaresRow(const SquaresRow&) = delete;  // it points into itself

  // Leaves scores and standard deviations before the row; false if it is not for here.
  bool attempt(const In<T>& x, const In<double>& y) {
    row_ = In<T>();
    if (!fits(x, features_.features()) || y.size() != y_.size()) return false;
    for (size_t c = 0; c < y_.size(); ++c) {
      asked_[c] = y.data()[c];
      if (!(std::fabs(asked_[c]) <= 1e150)) return false;
      y_[c] = (asked_[c] - targets_.center.data()[c]) / targets_.spread.data()[c];
    }
    if (!features_.make(x.data(), x_.data())) return false;
    if (!onkel::current_table().try_squares(task_, room_.data(), zeta_)) return false;
    row_ = x;
    return true;
  }

  // Learns the row that was tried last; leaves scores and standard deviations in the targets'
  // units.
  void commit() {
    require(row_.is_valid(), "nothing was tried");
    onkel::current_table().take_squares(task_, room_.data(), zeta_);
    if (rows_) rows_->take(row_.data() + features_.codes(), 1.0);
    if (wanted_) wanted_->take(asked_.data(), 1.0);
    row_ = In<T>();
    show();
    for (size_t c = 0; c < y_.size(); ++c) limits_.data()[c] *= targets_.spread.data()[c];
  }

  // Leaves the scores of a row as things are; false if it is not for here.
  bool look(const In<T>& x) {
    if (!fits(x, features_.features()) || !features_.make(x.data(), x_.data())) return false;
    bool fine = true;
    for (size_t c = 0; c < y_.size(); ++c) {
      double sum = 0;
      for (size_t i = 0; i < x_.size(); ++i) sum += theta_.data()[c * x_.size() + i] * x_[i];
      scores_.data()[c] = sum;
      fine &= std::isfinite(sum);
    }
    show();
    return fine;
  }

 private:
  void show() {
    for (size_t c = 0; c < y_.size(); ++c)
      scores_.data()[c] = targets_.center.data()[c] + targets_.spread.data()[c] * scores_.data()[c];
  }

  SquaresFeatures<T> features_;
  Out<double> state_, theta_, cov_;
  Targets targets_;
  std::optional<Moments> rows_, wanted_;
  Out<double> scores_, limits_;
  In<T> row_;
  double weight_ = 1, keep_, zeta_ = 0;
  std::vector<double> x_, y_, asked_, room_;
  onkel::Squares task_{};
};

template <class T>
void bind_rows(nb::module_& m) {
  nb::class_<SquaresFeatures<T>>(m, named<T>("SquaresFeatures").c_str())
      .def(nb::init<const Program*, const Frame<T>&, const In<T>&, const In<T>&, const In<double>&,
                    const In<double>&, double>(),
           "program"_a.none(), "frame"_a, "points"_a, "norms"_a, "center"_a, "shift"_a,
           "farthest"_a);
  nb::class_<SquaresRow<T>>(m, named<T>("SquaresRow").c_str())
      .def(nb::init<const SquaresFeatures<T>&, const SquaresNumbers&, double, const Out<double>&,
                    const Out<double>&, const Out<double>&, const Targets&, const Moments*,
                    const Moments*, const Out<double>&, const Out<double>&>(),
           "features"_a, "numbers"_a, "keep"_a, written("state"), written("theta"), written("cov"),
           "targets"_a, "rows"_a.none(), "wanted"_a.none(), written("scores"), written("limits"))
      .def("attempt", &SquaresRow<T>::attempt, nb::arg("x").noconvert(), nb::arg("y").noconvert())
      .def("commit", &SquaresRow<T>::commit)
      .def("look", &SquaresRow<T>::look, nb::arg("x").noconvert());
}

}  // namespace

void bind_squares(nb::module_& m) {
  nb::class_<SquaresNumbers>(m, "SquaresNumbers")
      .def(nb::init<double, double, double, double>(), "clip"_a, "most"_a, "horizon"_a,
           "longest"_a);
  m.def("least_squares", &least_squares, "x"_a, "y"_a, "weight"_a, "keep"_a, "numbers"_a,
        written("state"), written("theta"), written("cov"), written("score"), written("limit"));
  bind_rows<float>(m);
  bind_rows<double>(m);
}
