// What the fast lanes of one learner and of a bank share, on the side of Python.
#pragma once
#include <cmath>

#include "bind.hpp"

namespace {

using namespace seam;

// All that a learner is between two refreshes of its frame: what the lane reads and changes.
template <class T>
onkel::Lane<T> lane_of(const Program& program, const Frame<T>& frame, const Terms<T>& terms,
                       const Ring& ring, const Out<double>& state, const Stepper& stepper) {
  const int64_t slots = terms.slots();
  require(frame.features() == terms.features(), "frame and terms differ in features");
  require(has(state, terms.columns() * onkel::kFields), "state must be [columns][fields]");
  require(ring.count <= slots && ring.head < std::max<int64_t>(slots, 1),
          "the ring reaches beyond its terms");
  onkel::Lane<T> k{};
  k.program = program.view();
  k.d = terms.features();
  k.codes = frame.codes();
  k.columns = terms.columns();
  k.center = frame.center.data();
  k.unit = frame.unit.data();
  k.width = frame.width.data();
  k.shift = frame.shift.data();
  k.alike = frame.alike();
  k.width_t = frame.width_t.data();
  k.invariant = frame.invariant;
  k.clip = frame.clip;
  k.panels = terms.panels.data();
  k.norms = terms.norms.data();
  k.coef = terms.coef.data();
  k.weights = terms.weights.data();
  k.births = terms.births.data();
  k.capacity = slots / onkel::kLanes;
  k.head = ring.head;
  k.count = ring.count;
  k.cap = ring.cap;
  k.budget = ring.budget;
  k.state = state.data();
  k.loss = stepper.loss;
  k.rule = stepper.rule;
  k.intercept = stepper.intercept;
  k.needs_norm = stepper.needs_norm;
  return k;
}

// Where scores and limits before each step are left, and which rows became terms.
struct BlockOutput {
  Out<double> score, limit;
  Out<uint8_t> kept;
};

// Gives a lane the rows to learn, and where to leave what it finds.
template <class L, class B>
void hand_over(L& k, const B& block, const BlockOutput& out, int threads) {
  require(has(out.score, k.rows * k.columns) && has(out.limit, k.rows * k.columns) &&
              has(out.kept, k.rows),
          "score, limit and kept need one number per row");
  k.first_trial = block.first_trial;
  k.x = block.x.data();
  k.y = block.y.data();
  k.weight = block.weight.data();
  k.eta = block.eta.data();
  k.lam = block.lam.data();
  k.score = out.score.data();
  k.limit = out.limit.data();
  k.kept = out.kept.data();
  k.threads = threads;
}

// The standardisation of the targets: center 0 and spread 1 without.
struct Targets {
  In<double> center, spread;
};

// Whether a row has so many features, none too large for the lane.
template <class T>
bool fits(const In<T>& x, int64_t d) {
  if (x.ndim() != 1 || whole(x.size()) != d) return false;
  const T most = static_cast<T>(std::min(1e152, 3e38 * (sizeof(T) == 4 ? 1 : 1e300)));
  bool fine = true;
  for (size_t j = 0; j < x.size(); ++j) fine &= std::fabs(x.data()[j]) <= most;
  return fine;
}

}  // namespace
