// Half-widths of intervals that follow their misses, for Python; the twin is core/widths.py.
#include <algorithm>
#include <cmath>

#include "bind.hpp"

namespace {

using namespace seam;

// As core/widths.py lists them.
struct Numbers {
  double rate, low, high, horizon, step, far, large, least, most, farthest;
};

// The state of one target, field by field as `Width` has it.
struct Width {
  double log_q, first, usual, middle, spread, base, by_apart, by_answer, missed, forgiven, unspent,
      square;
};
constexpr size_t kFields = sizeof(Width) / sizeof(double);
constexpr size_t kNumbers = sizeof(Numbers) / sizeof(double);

// How far the members are apart and the answer from the middle, and the unit that this makes.
struct Seen {
  Seen(const Numbers& n, const Width& w, double answer, double apart) {
    far = std::min(w.usual > 0 ? apart / w.usual : 0.0, n.far);
    high = w.spread > 0 ? (answer - w.middle) / w.spread : 0.0;
    high = std::min(std::max(high, -n.far), n.far);
    unit = w.base + w.by_apart * far + w.by_answer * high;
    const double within = std::min(std::max(unit, n.least), n.most);
    width = std::exp(w.log_q) * w.usual * within;
    size = w.usual * within;
  }
  double far, high, unit, width, size;
};

void move(const Numbers& n, Width& w, bool miss, double nu) {
  w.missed += miss;
  const double wanted = w.log_q + n.rate * (miss - nu);
  w.log_q = std::min(std::max(wanted, n.low), n.high);
  w.forgiven += std::max(wanted - n.high, 0.0);
  w.unspent += std::max(n.low - wanted, 0.0);
}

void fit(const Numbers& n, Width& w, const Seen& seen, double error) {
  const double gap = std::min(error / w.usual, n.large) - seen.unit;
  const double step = n.step * gap / (1.0 + seen.far * seen.far + seen.high * seen.high);
  w.base += step;
  w.by_apart += step * seen.far;
  w.by_answer += step * seen.high;
}

void average(const Numbers& n, Width& w, double answer, double error, int64_t row, double size) {
  const double share = 1.0 / std::min(static_cast<double>(row), n.horizon);
  if (size > 0) {
    const double far = std::min(error / size, n.farthest);
    w.square += share * (far * far - w.square);
  }
  w.usual += share * (error - w.usual);
  if (row > 1) w.spread += share * (std::abs(answer - w.middle) - w.spread);
  w.middle += share * (answer - w.middle);
}

double follow(const Numbers& n, Width& w, double answer, double apart, double error, double nu,
              int64_t row) {
  const Seen seen(n, w, answer, apart);
  move(n, w, error > seen.width, nu);
  if (w.usual > 0) fit(n, w, seen, error);
  if (row)
    average(n, w, answer, error, row, seen.size);  // nothing was known before the very first row
  return seen.width;
}

void check(const In<double>& answers, const In<double>& apart, const In<double>& numbers,
           size_t state, const Out<double>& out) {
  require(answers.ndim() == 2 && apart.size() == answers.size() && out.size() == answers.size() &&
              numbers.size() == kNumbers && state == answers.shape(1) * kFields,
          "one width for each answer");
}

void widths(const In<double>& answers, const In<double>& apart, const In<double>& numbers,
            const In<double>& state, const Out<double>& out) {
  check(answers, apart, numbers, state.size(), out);
  const auto& n = *reinterpret_cast<const Numbers*>(numbers.data());
  const auto* w = reinterpret_cast<const Width*>(state.data());
  const size_t targets = answers.shape(1);
  for (size_t i = 0; i < answers.size(); ++i)
    out.data()[i] = Seen(n, w[i % targets], answers.data()[i], apart.data()[i]).width;
}

void follow_widths(const In<double>& answers, const In<double>& apart, const In<double>& errors,
                   double nu, int64_t row, const In<double>& numbers, const Out<double>& state,
                   const Out<double>& out) {
  check(answers, apart, numbers, state.size(), out);
  require(errors.size() == answers.size() && row >= 0, "one error for each answer");
  const auto& n = *reinterpret_cast<const Numbers*>(numbers.data());
  auto* w = reinterpret_cast<Width*>(state.data());
  const size_t targets = answers.shape(1);
  for (size_t i = 0; i < answers.size(); ++i)
    out.data()[i] = follow(n, w[i % targets], answers.data()[i], apart.data()[i], errors.data()[i],
                           nu, row + static_cast<int64_t>(i / targets));
}

}  // namespace

void bind_widths(nb::module_& m) {
  m.def("widths", &widths, "answers"_a, "apart"_a, "numbers"_a, "state"_a, written("out"));
  m.def("follow_widths", &follow_widths, "answers"_a, "apart"_a, "errors"_a, "nu"_a, "row"_a,
        "numbers"_a, written("state"), written("out"));
}
