// The parts that Python hands over: what they must be, and how they are made.
#include "bind.hpp"

namespace seam {

namespace {

void check_span(onkel::Op op, const char* name, const onkel::Span& span, double value) {
  const auto text = [](double x) { return std::string(nb::repr(nb::float_(x)).c_str()); };
  if (span.given && !(value >= span.low && value <= span.high))
    fail(std::string("kernel operation ") + onkel::kOpNames[static_cast<int>(op)] + ": " + name +
         " must lie in [" + text(span.low) + ", " + text(span.high) + "]; got " + text(value));
}

}  // namespace

Program::Program(const std::vector<std::tuple<int, double, double, int>>& text) {
  if (text.empty() || text.size() > onkel::kLongest)
    fail("a kernel program has 1 to " + std::to_string(onkel::kLongest) + " operations");
  int depth = 0;
  for (const auto& [code, a, b, c] : text) {
    const auto op = code_of<onkel::Op>("kernel operation", code, onkel::kOpNames);
    const onkel::Operation& row = onkel::operation_of(op);
    if (depth < row.pops)
      fail(std::string("kernel operation ") + onkel::kOpNames[code] + " takes more than there is");
    depth += 1 - row.pops;
    if (depth > onkel::kMaxDepth)
      fail("a kernel holds at most " + std::to_string(onkel::kMaxDepth) + " values at once");
    check_span(op, "a", row.a, a);
    check_span(op, "b", row.b, b);
    check_span(op, "c", row.c, c);
    nodes.push_back({op, a, b, c});
  }
  require(depth == 1, "a kernel program must leave one value");
}

template <class T>
Queries<T>::Queries(const In<T>& q, const In<T>& v, const In<T>& off, const In<T>& norm,
                    const In<T>& width, int64_t codes)
    : q(q), v(v), off(off), norm(norm), width(width), codes(codes) {
  require(q.ndim() == 2 && v.ndim() == 2 && q.shape(0) == v.shape(0) && q.shape(1) == v.shape(1),
          "q and v must be matrices of one shape");
  require(off.size() == q.shape(0) && norm.size() == q.shape(0) && width.size() == q.shape(1),
          "query vectors have the wrong length");
  require(codes >= 0 && codes <= whole(q.shape(1)), "more codes than columns");
}

template <class T>
Panels<T>::Panels(const In<T>& values, const In<T>& norms, const In<T>& coef, int64_t first,
                  int64_t used)
    : values(values), norms(norms), coef(coef), first(first), used(used) {
  require(values.ndim() == 3 && values.shape(2) == onkel::kLanes,
          "panels must be [capacity][features][lanes]");
  const size_t capacity = values.shape(0);
  require(norms.size() == capacity * onkel::kLanes, "norms must be [capacity][lanes]");
  require(coef.ndim() == 3 && coef.shape(0) == capacity && coef.shape(2) == onkel::kLanes,
          "coef must be [capacity][columns][lanes]");
  require(used >= 0 && used <= whole(capacity) && first >= 0 &&
              first < std::max<int64_t>(whole(capacity), 1),
          "panel range outside the ring");
}

template <class T>
Frame<T>::Frame(const In<double>& center, const In<double>& unit, const In<double>& width,
                const In<double>& shift, const In<double>& apart, bool invariant, double clip)
    : center(center),
      unit(unit),
      width(width),
      shift(shift),
      apart(apart),
      width_t(width.data(), width.data() + width.size()),
      invariant(invariant),
      clip(clip) {
  require(unit.size() == center.size() && width.size() == center.size() &&
              shift.size() == center.size(),
          "a frame has four numbers per feature");
  require(apart.size() <= center.size(), "more codes than columns");
  std::copy_n(apart.data(), apart.size(), width_t.begin());
}

template <class T>
Terms<T>::Terms(const Out<T>& panels, const Out<T>& norms, const Out<double>& coef,
                const Out<T>& weights, const Out<int64_t>& births)
    : panels(panels), norms(norms), coef(coef), weights(weights), births(births) {
  require(panels.ndim() == 3 && coef.ndim() == 3, "terms have three axes");
  const size_t capacity = panels.shape(0), slots = capacity * onkel::kLanes;
  require(panels.shape(2) == onkel::kLanes && norms.size() == slots && births.size() == slots &&
              coef.shape(0) == capacity && coef.shape(2) == onkel::kLanes &&
              weights.size() == coef.size(),
          "the arrays of the terms do not fit each other");
}

Moments::Moments(const Out<double>& seen, const Out<double>& mean, const Out<double>& variance,
                 double horizon, bool plain, bool steady)
    : seen(seen), mean(mean), variance(variance), horizon(horizon), plain(plain), steady(steady) {
  require(seen.size() == mean.size() && variance.size() == mean.size(),
          "seen, mean and variance need one number per column");
}

template struct Queries<float>;
template struct Queries<double>;
template struct Panels<float>;
template struct Panels<double>;
template struct Frame<float>;
template struct Frame<double>;
template struct Terms<float>;
template struct Terms<double>;

}  // namespace seam

namespace {

using namespace seam;

template <class T>
void bind_arrays(nb::module_& m) {
  nb::class_<Queries<T>>(m, named<T>("Queries").c_str())
      .def(
          nb::init<const In<T>&, const In<T>&, const In<T>&, const In<T>&, const In<T>&, int64_t>(),
          "q"_a, "v"_a, "off"_a, "norm"_a, "width"_a, "codes"_a = 0);
  nb::class_<Panels<T>>(m, named<T>("Panels").c_str())
      .def(nb::init<const In<T>&, const In<T>&, const In<T>&, int64_t, int64_t>(), "values"_a,
           "norms"_a, "coef"_a, "first"_a, "used"_a);
  nb::class_<Frame<T>>(m, named<T>("Frame").c_str())
      .def(nb::init<const In<double>&, const In<double>&, const In<double>&, const In<double>&,
                    const In<double>&, bool, double>(),
           "center"_a, "unit"_a, "width"_a, "shift"_a, "apart"_a, "invariant"_a, "clip"_a);
  nb::class_<Terms<T>>(m, named<T>("Terms").c_str())
      .def(nb::init<const Out<T>&, const Out<T>&, const Out<double>&, const Out<T>&,
                    const Out<int64_t>&>(),
           written("panels"), written("norms"), written("coef"), written("weights"),
           written("births"));
}

onkel::Loss make_loss(int code, double nu, double extra, bool learn_alerts) {
  return {code_of<onkel::LossCode>("loss", code, onkel::kLossCodeNames), nu, extra, learn_alerts};
}

onkel::Rule make_rule(int code, double threshold_rate, double power, double support_rate,
                      double radius, double extra, double most) {
  return {code_of<onkel::RuleCode>("rule", code, onkel::kRuleCodeNames),
          threshold_rate,
          power,
          support_rate,
          radius,
          extra,
          most};
}

Ring make_ring(int64_t head, int64_t count, int64_t cap, int budget) {
  require(head >= 0 && count >= 0 && cap >= 1, "a ring has a head, a count and room for a term");
  return {head, count, cap, code_of<onkel::BudgetCode>("budget", budget, onkel::kBudgetCodeNames)};
}

}  // namespace

void bind_parts(nb::module_& m) {
  nb::class_<Program>(m, "Program")
      .def(nb::init<const std::vector<std::tuple<int, double, double, int>>&>(), "nodes"_a)
      .def("__len__", [](const Program& p) { return p.nodes.size(); });
  nb::class_<onkel::Loss>(m, "Loss")
      .def(
          "__init__",
          [](onkel::Loss* at, int code, double nu, double extra, bool learn_alerts) {
            new (at) onkel::Loss(make_loss(code, nu, extra, learn_alerts));
          },
          "code"_a, "nu"_a = -1.0, "extra"_a = 1.0, "learn_alerts"_a = true)
      .def_prop_ro("code", [](const onkel::Loss& loss) { return static_cast<int>(loss.code); });
  nb::class_<onkel::Rule>(m, "Rule")
      .def(
          "__init__",
          [](onkel::Rule* at, int code, double threshold_rate, double power, double support_rate,
             double radius, double extra, double most) {
            new (at) onkel::Rule(
                make_rule(code, threshold_rate, power, support_rate, radius, extra, most));
          },
          "code"_a, "threshold_rate"_a = 1.0, "power"_a = 2.0, "support_rate"_a = 1.0,
          "radius"_a = HUGE_VAL, "extra"_a = 0.0, "most"_a = 1e150)
      .def_prop_ro("code", [](const onkel::Rule& rule) { return static_cast<int>(rule.code); });
  nb::class_<Stepper>(m, "Stepper")
      .def(
          "__init__",
          [](Stepper* at, const onkel::Loss& loss, const onkel::Rule& rule, bool intercept,
             bool needs_norm) { new (at) Stepper{loss, rule, intercept, needs_norm}; },
          "loss"_a, "rule"_a, "intercept"_a, "needs_norm"_a);
  nb::class_<Ring>(m, "Ring")
      .def(
          "__init__",
          [](Ring* at, int64_t head, int64_t count, int64_t cap, int budget) {
            new (at) Ring(make_ring(head, count, cap, budget));
          },
          "head"_a, "count"_a, "cap"_a, "budget"_a)
      .def_ro("head", &Ring::head)
      .def_ro("count", &Ring::count)
      .def_ro("cap", &Ring::cap)
      .def_prop_ro("budget", [](const Ring& ring) { return static_cast<int>(ring.budget); });
  nb::class_<Moments>(m, "Moments")
      .def(nb::init<const Out<double>&, const Out<double>&, const Out<double>&, double, bool,
                    bool>(),
           written("seen"), written("mean"), written("variance"), "horizon"_a, "plain"_a,
           "steady"_a);
  bind_arrays<float>(m);
  bind_arrays<double>(m);
}
