// Budgets for Python: a full window is copied and brought down to fewer terms.
#include "bind.hpp"

namespace {

using namespace seam;

template <class T>
void run(onkel::Condense<T>& k) {
  if constexpr (sizeof(T) == 4)
    onkel::current_table().condense_f(k);
  else
    onkel::current_table().condense_d(k);
}

// Lays the terms of a ring in order from the first lane of other arrays on.
template <class T>
void lay_out(const Terms<T>& from, const Ring& ring, const Terms<T>& into) {
  const int64_t d = from.features(), columns = from.columns(), slots = from.slots();
  const auto copy = [](auto* source, auto* target, int64_t wide, int64_t at, int64_t to) {
    source += at / onkel::kLanes * wide * onkel::kLanes + at % onkel::kLanes;
    target += to / onkel::kLanes * wide * onkel::kLanes + to % onkel::kLanes;
    for (int64_t j = 0; j < wide; ++j) target[j * onkel::kLanes] = source[j * onkel::kLanes];
  };
  for (int64_t i = 0; i < ring.count; ++i) {
    const int64_t at = (ring.head + i) % slots;
    copy(from.panels.data(), into.panels.data(), d, at, i);
    copy(from.coef.data(), into.coef.data(), columns, at, i);
    into.norms.data()[i] = from.norms.data()[at];
    into.births.data()[i] = from.births.data()[at];
  }
}

// Leaves `left` of the ring's terms in `into`, which holds nothing, and the norms of what was lost
// in `lost`; the first `own` coefficients say how large a term is. Returns how many are left.
template <class T>
int64_t condense(const Program& program, const Frame<T>& frame, const Terms<T>& terms,
                 const Ring& ring, const Terms<T>& into, int64_t left, int64_t own,
                 const Out<double>& lost) {
  const int64_t slots = terms.slots();
  require(frame.features() == terms.features() && into.features() == terms.features() &&
              into.columns() == terms.columns() && into.slots() == slots,
          "frame, terms and where they go differ in size");
  require(ring.count <= slots && ring.head < std::max<int64_t>(slots, 1),
          "the ring reaches beyond its terms");
  require(left >= 0 && left <= ring.count && own >= 0 && own <= terms.columns() &&
              has(lost, terms.columns()),
          "no such number of terms or coefficients");
  require(ring.budget != onkel::BudgetCode::kMerge ||
              (program.nodes.size() == 1 && program.nodes[0].op == onkel::Op::kGaussian),
          "only terms of a Gaussian kernel are merged");
  onkel::Condense<T> k{};
  k.budget = ring.budget;
  k.program = program.view();
  k.d = terms.features();
  k.codes = frame.codes();
  k.columns = terms.columns();
  k.own = own;
  k.width = frame.width.data();
  k.shift = frame.shift.data();
  k.alike = frame.alike();
  k.width_t = frame.width_t.data();
  k.panels = into.panels.data();
  k.norms = into.norms.data();
  k.coef = into.coef.data();
  k.births = into.births.data();
  k.count = ring.count;
  k.left = left;
  k.lost = lost.data();
  nb::gil_scoped_release release;
  lay_out(terms, ring, into);
  run(k);
  std::copy_n(k.coef, slots * k.columns, into.weights.data());
  return k.count;
}

template <class T>
void bind_rows(nb::module_& m) {
  m.def("condense", &condense<T>, "program"_a, "frame"_a, "terms"_a, "ring"_a, "into"_a, "left"_a,
        "own"_a, written("lost"));
}

}  // namespace

void bind_budgets(nb::module_& m) {
  bind_rows<float>(m);
  bind_rows<double>(m);
}
