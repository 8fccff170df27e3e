// Means of several settings' answers for Python: what is usual, what each of them lost by it, and
// the weights that follow. The readable form is onkel/core/means.py.
#include <cmath>
#include <numeric>

#include "bind.hpp"
#include "share.hpp"

namespace {

using namespace seam;

// Scores [members][outputs] of one row, and what is needed to put them in order.
class Answers {
 public:
  Answers(size_t members, size_t outputs)
      : m_(members), c_(outputs), order_(members), sizes_(members) {}

  // The median distance of output o from y.
  double median_error(const double* scores, size_t o, double y) {
    for (size_t i = 0; i < m_; ++i) sizes_[i] = std::fabs(scores[i * c_ + o] - y);
    std::sort(sizes_.begin(), sizes_.end());
    const size_t half = m_ / 2;
    return m_ % 2 ? sizes_[half] : (sizes_[half - 1] + sizes_[half]) / 2;
  }

  // The weighted mean of output o; answers that are far count as `reach` from the weighted median.
  double mean(const double* scores, size_t o, const double* weights, double reach) {
    std::iota(order_.begin(), order_.end(), size_t(0));
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return scores[a * c_ + o] < scores[b * c_ + o]; });
    double all = 0, passed = 0, sum = 0;
    for (const size_t i : order_) all += weights[i];
    size_t middle = 0;
    for (; middle < m_; ++middle)
      if ((passed += weights[order_[middle]]) >= 0.5 * all) break;
    const double median = scores[order_[std::min(middle, m_ - 1)] * c_ + o];
    for (size_t i = 0; i < m_; ++i)
      sum += weights[i] * std::clamp(scores[i * c_ + o] - median, -reach, reach);
    return median + sum;
  }

 private:
  size_t m_, c_;
  std::vector<size_t> order_;
  std::vector<double> sizes_;
};

void check(const In<double>& scores, size_t members, size_t outputs, const Out<double>& out) {
  require(scores.ndim() == 3 && scores.shape(1) == members && scores.shape(2) == outputs &&
              out.size() == scores.shape(0) * outputs,
          "scores must be [rows][members][outputs]");
}

// What a mixture of means has come to: all change in place.
struct Means {
  Means(const Out<double>& weights, const Out<double>& usual, const Out<double>& losses,
        const Out<double>& totals, double rate, double share, double reach, double horizon)
      : weights(weights),
        usual(usual),
        losses(losses),
        totals(totals),
        rate(rate),
        share(share),
        reach(reach),
        horizon(horizon) {
    require(weights.size() > 0 && weights.size() == losses.size() && totals.size() == 3,
            "one weight and one loss per member, three totals");
  }
  size_t members() const { return weights.size(); }
  size_t outputs() const { return usual.size(); }

  // Learns one row; leaves the answer before it.
  void learn(Answers& answers, const double* scores, const double* y, double* loss, double* before,
             double* out) {
    const size_t m = members(), c = outputs();
    const double trial = std::min(totals.data()[2] + 1, horizon);
    std::fill_n(loss, m, 0.0);
    for (size_t o = 0; o < c; ++o) {
      double& now = usual.data()[o];
      out[o] = answers.mean(scores, o, weights.data(), reach * now);
      now += (answers.median_error(scores, o, y[o]) - now) / trial;
      const double scale = reach * now;
      for (size_t i = 0; scale > 0 && i < m; ++i) {
        const double part = std::min(std::fabs(scores[i * c + o] - y[o]) / scale, 1.0);
        loss[i] += part * part;
      }
    }
    for (size_t i = 0; i < m; ++i) loss[i] /= static_cast<double>(c);
    const double gap = onkel::share_step(loss, m, rate, share, weights.data(), before);
    double mean = 0;
    for (size_t i = 0; i < m; ++i) {
      mean += before[i] * loss[i];
      losses.data()[i] += loss[i];
    }
    totals.data()[0] += mean;
    totals.data()[1] += gap;
    totals.data()[2] += 1;
  }

  Out<double> weights, usual, losses, totals;
  double rate, share, reach, horizon;
};

// Learns rows in order: scores [rows][members][outputs], y [rows][outputs].
void learn(Means& means, const In<double>& scores, const In<double>& y, const Out<double>& out) {
  const size_t m = means.members(), c = means.outputs();
  check(scores, m, c, out);
  const size_t rows = scores.shape(0);
  require(y.size() == rows * c, "y must be [rows][outputs]");
  Answers answers(m, c);
  std::vector<double> room(2 * m);
  for (size_t t = 0; t < rows; ++t)
    means.learn(answers, scores.data() + t * m * c, y.data() + t * c, room.data(), room.data() + m,
                out.data() + t * c);
}

// The means of rows as things are; `reach` is that of each output.
void look(const In<double>& scores, const In<double>& weights, const In<double>& reach,
          const Out<double>& out) {
  const size_t m = weights.size(), c = reach.size();
  check(scores, m, c, out);
  const size_t rows = scores.shape(0);
  Answers answers(m, c);
  for (size_t t = 0; t < rows; ++t)
    for (size_t o = 0; o < c; ++o)
      out.data()[t * c + o] =
          answers.mean(scores.data() + t * m * c, o, weights.data(), reach.data()[o]);
}

}  // namespace

void bind_means(nb::module_& m) {
  nb::class_<Means>(m, "Means")
      .def(nb::init<const Out<double>&, const Out<double>&, const Out<double>&, const Out<double>&,
                    double, double, double, double>(),
           written("weights"), written("usual"), written("losses"), written("totals"), "rate"_a,
           "share"_a, "reach"_a, "horizon"_a)
      .def("learn", &learn, nb::arg("scores").noconvert(), nb::arg("y").noconvert(),
           written("out"));
  m.def("means", &look, nb::arg("scores").noconvert(), "weights"_a, "reach"_a, written("out"));
}
