// Probabilities of scores for Python: the state's arrays are bound once, rows come in any number.
#include <optional>

#include "bind.hpp"
#include "chances.hpp"

namespace {

using namespace seam;

// Lets other threads run, where that is worth the switch.
struct Free {
  explicit Free(int64_t rows) {
    if (rows > 16) release.emplace();
  }
  std::optional<nb::gil_scoped_release> release;
};

// Keeps the arrays that the state lies in, and room for a row.
class Chances {
 public:
  Chances(int64_t outputs, double share, const Out<double>& link, const Out<double>& offset,
          const Out<double>& bend, const Out<double>& joint, const Out<double>& bow,
          const Out<double>& said, const Out<double>& weights, const Out<double>& losses,
          const Out<int64_t>& count)
      : held_{link, offset, bend, joint, bow, said, weights, losses},
        count_(count),
        state_(state(outputs, share)),
        room_(state_) {}

  // scores [rows][members][outputs], y [rows][outputs] of +1 and -1, out [rows][outputs].
  void learn(const In<double>& scores, const In<double>& y, const Out<double>& out) {
    const int64_t rows = check(scores, out);
    require(has(y, rows * state_.outputs), "y must be [rows][outputs]");
    const Free free(rows);
    for (int64_t i = 0; i < rows; ++i)
      onkel::learn_chances(state_, scores.data() + i * state_.members * state_.outputs,
                           place(y.data() + i * state_.outputs), room_,
                           out.data() + i * state_.outputs);
  }
  void look(const In<double>& scores, const Out<double>& out) {
    const int64_t rows = check(scores, out);
    const Free free(rows);
    for (int64_t i = 0; i < rows; ++i) {
      onkel::answer(state_, scores.data() + i * state_.members * state_.outputs, room_);
      onkel::tell(state_, room_, out.data() + i * state_.outputs);
    }
  }

 private:
  onkel::Chances state(int64_t outputs, double share) const {
    const auto& [link, offset, bend, joint, bow, said, weights, losses] = held_;
    onkel::Chances s{};
    s.members = whole(link.size()) / onkel::kLink;
    s.outputs = outputs;
    s.classes = std::max<int64_t>(outputs, 2);
    s.experts = s.members > 1 ? s.members + onkel::kJoint : s.members;
    s.share = share;
    require(s.members > 0 && outputs > 0 && has(link, s.members * onkel::kLink) &&
                has(offset, s.members * s.classes) && has(bend, s.members * s.classes) &&
                has(joint, onkel::kJoint * s.members) && has(bow, s.members * s.members) &&
                has(said, s.members) && has(weights, s.experts) && has(losses, s.experts + 1) &&
                has(count_, 1),
            "an array of the chances has the wrong size");
    s.link = link.data();
    s.offset = offset.data();
    s.bend = bend.data();
    s.joint = joint.data();
    s.bow = bow.data();
    s.said = said.data();
    s.weights = weights.data();
    s.losses = losses.data();
    s.count = count_.data();
    return s;
  }
  int64_t check(const In<double>& scores, const Out<double>& out) const {
    const int64_t rows = whole(out.size()) / state_.outputs;
    require(has(out, rows * state_.outputs) && has(scores, rows * state_.members * state_.outputs),
            "scores must be [rows][members][outputs]");
    return rows;
  }
  int64_t place(const double* y) const {
    if (state_.outputs == 1) return y[0] > 0;
    return std::max_element(y, y + state_.outputs) - y;
  }

  struct Held {
    Out<double> link, offset, bend, joint, bow, said, weights, losses;
  } held_;
  Out<int64_t> count_;
  onkel::Chances state_;
  onkel::ChancesRoom room_;
};

}  // namespace

void bind_chances(nb::module_& m) {
  nb::class_<Chances>(m, "Chances")
      .def(nb::init<int64_t, double, const Out<double>&, const Out<double>&, const Out<double>&,
                    const Out<double>&, const Out<double>&, const Out<double>&, const Out<double>&,
                    const Out<double>&, const Out<int64_t>&>(),
           "outputs"_a, "share"_a, written("link"), written("offset"), written("bend"),
           written("joint"), written("bow"), written("said"), written("weights"), written("losses"),
           written("count"))
      .def("learn", &Chances::learn, "scores"_a, "y"_a, written("out"))
      .def("look", &Chances::look, "scores"_a, written("out"));
}
