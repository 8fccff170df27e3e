// Means of several settings' answers for Python: the state's arrays are bound once.
#include "bind.hpp"
#include "means.hpp"

namespace {

using namespace seam;

// Keeps the arrays that the state lies in, and room for a row.
class Means {
 public:
  Means(double rate, double share, const Out<double>& weights, const Out<double>& losses,
        const Out<double>& usual, const Out<double>& own, const Out<double>& squares,
        const Out<double>& joint, const Out<double>& bow, const Out<double>& totals)
      : held_{weights, losses, usual, own, squares, joint, bow, totals},
        state_(state(rate, share)),
        room_(state_) {}

  // scores [rows][members][outputs], y and out [rows][outputs].
  void learn(const In<double>& scores, const In<double>& y, const Out<double>& out) {
    const size_t rows = check(scores, out), c = state_.outputs;
    require(y.size() == rows * c, "y must be [rows][outputs]");
    for (size_t t = 0; t < rows; ++t)
      onkel::learn_means(state_, scores.data() + t * state_.members * c, y.data() + t * c, room_,
                         out.data() + t * c);
  }
  void look(const In<double>& scores, const Out<double>& out) {
    const size_t rows = check(scores, out), c = state_.outputs;
    for (size_t t = 0; t < rows; ++t)
      onkel::look_means(state_, scores.data() + t * state_.members * c, room_, out.data() + t * c);
  }

 private:
  onkel::Means state(double rate, double share) const {
    const auto& [weights, losses, usual, own, squares, joint, bow, totals] = held_;
    const size_t c = usual.size(), m = c > 0 ? joint.size() / (c * onkel::kMeansJoint) : 0;
    const size_t experts = m > 1 ? m + onkel::kMeansJoint : m;
    require(m > 0 && c > 0 && weights.size() == experts && losses.size() == experts &&
                own.size() == c && squares.size() == c * experts &&
                joint.size() == c * onkel::kMeansJoint * m && bow.size() == c * m * m &&
                totals.size() == 3,
            "an array of the means has the wrong size");
    return {m,
            c,
            experts,
            rate,
            share,
            weights.data(),
            losses.data(),
            usual.data(),
            own.data(),
            squares.data(),
            joint.data(),
            bow.data(),
            totals.data()};
  }
  size_t check(const In<double>& scores, const Out<double>& out) const {
    const size_t rows = out.size() / state_.outputs;
    require(out.size() == rows * state_.outputs &&
                scores.size() == rows * state_.members * state_.outputs,
            "scores must be [rows][members][outputs]");
    return rows;
  }

  struct Held {
    Out<double> weights, losses, usual, own, squares, joint, bow, totals;
  } held_;
  onkel::Means state_;
  onkel::MeansRoom room_;
};

}  // namespace

void bind_means(nb::module_& m) {
  nb::class_<Means>(m, "Means")
      .def(nb::init<double, double, const Out<double>&, const Out<double>&, const Out<double>&,
                    const Out<double>&, const Out<double>&, const Out<double>&, const Out<double>&,
                    const Out<double>&>(),
           "rate"_a, "share"_a, written("weights"), written("losses"), written("usual"),
           written("own"), written("squares"), written("joint"), written("bow"), written("totals"))
      .def("learn", &Means::learn, "scores"_a, "y"_a, written("out"))
      .def("look", &Means::look, "scores"_a, written("out"));
}
