// The detector: densities of rows, of their steps and of their late means, each read as a tail
// probability, joined, and judged against a level that remembers its debt. One row after another;
// the readable form is onkel/core/numpy_density.py.
#pragma once
#include <cstring>
#include <initializer_list>

#include "metric.hpp"
#include "view.hpp"

namespace {

constexpr double kLargest = 1e75;  // most that a number counts: its fourth power is finite
constexpr double kLastShare =
    0.02;                           // of the joined scores: those beyond which a tail is fitted ...
constexpr int64_t kLastLeast = 20;  // ... at least
constexpr double kKnown = 200;      // joined scores that make a distribution of their own
constexpr double kGross = 2.3;      // below the level by a factor of ten
constexpr double kLoud = 40;        // a view's score beyond this is tempered
constexpr double kReachCost = 2.5;  // what a largest coordinate must be ahead by
constexpr double kTurnCost = 3;     // what whitened rows must be ahead by where order is none
constexpr double kAlike = 0.5;      // a row as like an answered alert as this is one of its kind
constexpr double kBeyond = 0.1;     // a fault's kind is at least so far below the level
constexpr double kOneMore = 3;      // spreads beyond a limit that make a row another
constexpr double kStandsOut = 3;    // a value so many spreads from its mean stands out
constexpr double kSeen = 1;         // it begins to, so many spreads before
constexpr double kFurthest = 1e6;   // no value stands out by more
constexpr double kNearOwn = 0.5;   // how near a value must be to an answered one that stood out ...
constexpr double kWiderOwn = 0.3;  // ... and what that gains by how far it stood out
constexpr int kMembers = 9;        // what is told of each row: eight scores, and the tie

// A number in [0, 1) from a counter (splitmix64).
inline double uniform(uint64_t seed, uint64_t counter) {
  uint64_t z = seed * 0xD1B54A32D192ED03ull + (counter + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

// No view drowns the others: beyond kLoud a score counts by its logarithm.
inline double loud(double score) {
  return score < kLoud ? score : kLoud + std::log1p(score - kLoud);
}

// What answers make of -log p, and what they would if no values were known one by one; whether the
// row is of a fault's kind.
struct Heard {
  double score, alone;
  bool fault = false;
};

struct Machine : Metric {
  View plain, white, steps, late;
  std::vector<float> buffers, query;
  std::vector<double> step, mean;
  Met met[3];
  float reach[3] = {};
  bool found[3] = {};

  Machine(const DensityPlan& plan, Density& s)
      : Metric(plan, s),
        plain(view(0, 0, 1)),
        white(view(1, 1, 2)),
        steps(view(2, 3, 1)),
        late(late_view()),
        buffers(static_cast<size_t>(5 * room())),
        query(static_cast<size_t>(5 * s.d)),
        step(static_cast<size_t>(s.d)),
        mean(static_cast<size_t>(s.d)) {}

  // View k of the sample, whose tails begin with number `first`; its reach is number 5 + k.
  View view(int k, int first, int widths) {
    return {.d = d,
            .places = s.places,
            .count = whole(onkel::kCountSize),
            .z = s.z + k * d * s.places,
            .sums = s.sums + first * s.places,
            .reach = s.sums + (4 + k) * s.places,
            .marks = s.marks,
            .widths = widths,
            .crow = k > 0,
            .width = real(onkel::kLevelWidth + k),
            .edge = real(onkel::kLevelEdge + first),
            .slope = real(onkel::kLevelSlope + first),
            .reach_edge = real(onkel::kLevelEdge + 5 + k),
            .reach_slope = real(onkel::kLevelSlope + 5 + k)};
  }

  View late_view() {
    View v = view(3, 4, 1);
    v.places = s.late_places;
    v.count = whole(onkel::kCountLateSize);
    v.z = s.late_z;
    v.sums = s.late_sums;
    v.reach = s.late_sums + s.late_places;
    v.marks = nullptr;  // no mean raises an alert
    return v;
  }

  // Five buffers: what a row meets in each view, and one to work in (`put` keeps a point behind).
  int64_t room() const { return std::max(s.places, s.late_places) + kWF + d; }
  float* buffer(int k) { return buffers.data() + k * room(); }
  float* q(int k) { return query.data() + k * d; }

  // Whether enough is known to judge.
  bool ready() { return plain.count >= plan.young && *plain.width != 0; }

  void place(View& v, int64_t i, const float* q, float reach) {
    v.reach[i] = reach;
    for (int64_t j = 0; j < d; ++j) v.z[j * v.places + i] = q[j];
  }

  // See all terms through the moments of now, and settle all views.
  void refresh() {
    const int64_t t = whole(onkel::kCountT);
    if (t < plan.young || t < whole(onkel::kCountRefresh)) return;
    whole(onkel::kCountRefresh) =
        t + std::max<int64_t>(5, std::min(t / 8, static_cast<int64_t>(plan.memory / 4)));
    for (Kind kind : {kRows, kSteps, kLate}) take_metric(kind, static_cast<double>(t));
    for (int64_t i = 0; i < plain.count; ++i) {
      look(s.raw + i * d, s.raw + (s.places + i) * d);
      place(plain, i, q(0), reach[0]);
      place(white, i, q(1), reach[1]);
      place(steps, i, q(2), reach[2]);
    }
    for (int64_t i = 0; i < late.count; ++i) {
      seen_as(kLate, s.late_raw + i * d, nullptr, q(3));
      place(late, i, q(3), 0);
    }
    for (View* v : {&plain, &white, &steps, &late}) settle(*v, buffer(4));
    whole(onkel::kCountFresh) = whole(onkel::kCountLateFresh) = 0;
  }

  // -- judging

  // -log p of a joined score among those remembered.
  double rank_score(double g, double tied) {
    const int64_t n = whole(onkel::kCountHistory);
    const double guess = g / (1 + 1.5 * tied);  // what it is while little is known
    if (n < plan.young) return guess;
    const double known = std::min(1.0, static_cast<double>(n) / kKnown);
    return known * among(g, n) + (1 - known) * guess;
  }

  double among(double g, int64_t n) {
    const int64_t k = in_tail(n, kLastShare, kLastLeast);
    const double edge = s.ranked[n - k - 1];
    if (g > edge) {
      const double slope = std::max((s.ranked[n - k / 2 - 1] - edge) / kLog2, 0.5);
      return std::log(static_cast<double>(n) / static_cast<double>(k)) + (g - edge) / slope;
    }
    const int64_t below = std::lower_bound(s.ranked, s.ranked + n, g) - s.ranked;
    return -std::log(static_cast<double>(n - below + 1) / static_cast<double>(n + 1));
  }

  // See a row and its step in the views of the sample; what they meet there is found when needed.
  void look(const double* x, const double* step_) {
    seen_as(kRows, x, q(0), q(1));
    seen_as(kSteps, step_, q(4), q(2));
    reach[0] = reach[1] = reach_of(q(0), d);
    reach[2] = reach_of(q(4), d);
    std::fill_n(found, 3, false);
  }

  const Met& meet_once(int k) {
    const View& v = k == 0 ? plain : k == 1 ? white : steps;
    if (!found[k]) met[k] = meet(v, q(k), buffer(k));
    found[k] = true;
    return met[k];
  }

  double fade() const { return 1 - 2 / (plan.span + 1); }

  // A row's step, and the running mean with it.
  void move(const double* x) {
    const bool first = whole(onkel::kCountT) == 0;
    const double mass = fade() * *real(onkel::kLevelSmoothMass) + 1;
    for (int64_t j = 0; j < d; ++j) {
      step[static_cast<size_t>(j)] = first ? 0 : x[j] - s.last[j];
      mean[static_cast<size_t>(j)] = (fade() * s.smooth[j] + x[j]) / mass;
    }
  }

  // Judge a row as the next one; the joined score, and -log p.
  void judge(const double* x, double* joined, double* score, double* part) {
    move(x);
    *joined = *score = 0;
    std::fill_n(part, kMembers, 0.0);
    if (!ready()) return;
    const double tied = part[8] = tie();
    look(x, step.data());
    part[1] = tail_score(white, meet_once(1), 0);
    if (tied < 1) {
      part[0] = tail_score(plain, meet_once(0), 0);
      part[5] = reach_score(plain, reach[0]);
    }
    if (tied > 0) look_closer(part);
    *joined = join(part);
    *score = rank_score(*joined, tied);
  }

  // What is looked at where rows are tied to those before.
  void look_closer(double* part) {
    part[2] = tail_score(white, meet_once(1), 1);
    part[3] = tail_score(steps, meet_once(2), 0);
    part[6] = reach_score(white, reach[1]);
    part[7] = reach_score(steps, reach[2]);
    if (late.count < plan.young || *late.width == 0) return;
    seen_as(kLate, mean.data(), nullptr, q(3));
    part[4] = tail_score(late, meet(late, q(3), buffer(3)), 0);
  }

  // A view is its density, or its largest coordinate where that is far ahead.
  static double join(const double* part) {
    const auto with = [&](double score, int reach) {
      return std::max(score, part[reach] - kReachCost);
    };
    const double tied = part[8], turned = with((part[1] + part[2]) / 2, 6);
    const double alone = std::max(with(part[0], 5), part[1] - kTurnCost);
    return (1 - tied) * loud(alone) +
           tied * (loud(turned) + loud(with(part[3], 7)) / 2 + loud(part[4]));
  }

  // -- what was answered

  // How like an answered alert the row of now is: 1 for itself, faded by its age.
  double likeness(int64_t i, const double* const seen[3]) const {
    const onkel::Answers& a = s.answers;
    double far = 0;
    for (int64_t k = 0; k < 3; ++k) {
      const double* c = a.places + (i * 15 + k) * d;
      const int64_t next = 3 * d;
      double apart = 0, more = 0;
      for (int64_t j = 0; j < d; ++j) {
        const double z = (seen[k][j] - c[j]) / c[next + j];
        apart += c[3 * next + j] * std::fabs(z - c[2 * next + j]);
        const double over = std::max(std::fabs(z) - c[4 * next + j], 0.0);
        more += over * over;
      }
      far = std::max(far, apart / a.radius[4 * i + k] + std::sqrt(more) / kOneMore);
    }
    far *= a.radius[4 * i + 3];
    return std::exp(-far * far - faded(i));
  }

  // By how much an answer has faded: not at all while its memory lasts.
  double faded(int64_t i) const {
    const double age = static_cast<double>(s.whole[onkel::kCountT] - s.answers.born[i]);
    return std::max(age / s.answers.memory - 1, 0.0);
  }

  // How like value j of part k, which is u spreads out on a side, is to that of answer i.
  double value_like(int64_t i, int64_t k, int64_t j, double u, double side) const {
    const onkel::Answers& a = s.answers;
    const double e = std::max(side * a.places[(i * 15 + 6 + k) * d + j], 0.0);
    const double r = std::min(u - (kStandsOut - kSeen), 1.0);
    const double inside = std::max(e - u, 0.0) / std::sqrt(static_cast<double>(d));
    const double far = r * (std::max(u - e, 0.0) + inside) / (kNearOwn + kWiderOwn * e);
    return std::exp(-far * far - faded(i));
  }

  // How well a value that stands out is known: by the second best of the places called usual.
  double value_known(int64_t k, int64_t j, double u, double side) const {
    const onkel::Answers& a = s.answers;
    double best = 0, second = 0;
    for (int64_t i = 0; i < a.count; ++i) {
      const double like = a.strength[i] == 0 ? value_like(i, k, j, u, side) : 0;
      second = std::max(second, std::min(best, like));
      best = std::max(best, like);
    }
    return second;
  }

  // How a row is known by what stands out of it, each value from a place of its own.
  double known(const double* const seen[3], double tied) const {
    const bool late_too = tied > 0 && late.count >= plan.young && *late.width != 0;
    const bool looked[] = {true, tied > 0, late_too};
    bool out = false;
    double least = 1;
    for (int64_t k = 0; k < 3; ++k)
      for (int64_t j = 0; looked[k] && j < d; ++j) {
        const int64_t at = k * d + j;
        const double z = (seen[k][j] - s.center[at]) / s.scale[at];
        const double u = std::min(std::fabs(z), kFurthest);
        if (!(u > kStandsOut - kSeen)) continue;
        out = out || u >= kStandsOut;
        if (least > 0) least = std::min(least, value_known(k, j, u, z > 0 ? 1.0 : -1.0));
      }
    return out ? least : 0;
  }

  // The level below which log p is an alert: that of the promised rate, of the promised precision.
  double level() const {
    const double rate = s.real[onkel::kLevelLogAlpha];
    if (!s.answers.judges) return rate;
    return s.answers.alone ? s.answers.theta : std::min(rate, s.answers.theta);
  }

  // What answers make of -log p: less where a row is like what was called usual, or known from it,
  // more where it is like a fault; the more alike one decides.
  Heard heard(const double* x, double score, double tied) const {
    const onkel::Answers& a = s.answers;
    const double* const seen[] = {x, step.data(), mean.data()};
    double usual = 0, bad = 0, strength = 0;
    for (int64_t i = 0; i < a.count; ++i) {
      const double like = likeness(i, seen);
      if (a.strength[i] == 0)
        usual = std::max(usual, like);
      else if (like > bad)
        bad = like, strength = a.strength[i];
    }
    const bool fault = bad >= kAlike;
    const double raised = std::max({score, bad * strength, fault ? kBeyond - level() : 0.0});
    const double parts = known(seen, tied);
    Heard h{.score = score * (1 - std::max(usual, parts)), .alone = score * (1 - usual)};
    if (bad > usual) h.alone = raised;
    if (bad > std::max(usual, parts)) h.score = raised, h.fault = fault;
    return h;
  }

  // Keep a row that raised an alert, until it is answered or others have taken its place.
  void ask(const double* x, double score, double tied) {
    const onkel::Answers& a = s.answers;
    if (a.room == 0) return;
    const int64_t at = (*a.asked_count)++ % a.room;
    double* to = a.asked + at * (3 * d + 2);
    std::copy_n(x, d, to);
    std::copy_n(step.data(), d, to + d);
    std::copy_n(mean.data(), d, to + 2 * d);
    to[3 * d] = 0 - score;
    to[3 * d + 1] = tied;
    a.asked_at[at] = whole(onkel::kCountT);
    a.said[at] = 0;
  }

  // -- learning

  // A joined score into the history; once that is full, by chance and in another's place.
  void remember(double joined) {
    joined += 0.0;  // there is one zero: equal scores are the same bits, whatever order ranked has
    int64_t &n = whole(onkel::kCountHistory), &at = whole(onkel::kCountHistoryAt);
    if (n == plan.history) {
      const double seen =
          std::min(static_cast<double>(whole(onkel::kCountT)) / 4, 0.4 * plan.memory);
      if (!(draw() < static_cast<double>(n) / seen)) return;
      at = std::min<int64_t>(static_cast<int64_t>(draw() * static_cast<double>(n)), n - 1);
      double* old =
          std::min(std::lower_bound(s.ranked, s.ranked + n, s.history[at]), s.ranked + n - 1);
      std::memmove(old, old + 1, static_cast<size_t>(s.ranked + n - old - 1) * sizeof(double));
      --n;
    }
    double* place = std::upper_bound(s.ranked, s.ranked + n, joined);
    std::memmove(place + 1, place, static_cast<size_t>(s.ranked + n - place) * sizeof(double));
    *place = joined;
    ++n;
    s.history[at] = joined;
    at = at + 1 == plan.history ? 0 : at + 1;
  }

  double draw() {
    return uniform(static_cast<uint64_t>(plan.seed),
                   static_cast<uint64_t>(whole(onkel::kCountDraws)++));
  }

  // The place that a row gets in a sample of `most`, -1 for none.
  int64_t chosen(double seen, double weight, int64_t count, int64_t most) {
    if (count < most) return count;
    const double chance = weight * static_cast<double>(most) / std::min(seen, plan.memory);
    if (!(draw() < chance)) return -1;
    return std::min<int64_t>(static_cast<int64_t>(draw() * static_cast<double>(most)), most - 1);
  }

  // Fit the tails of views anew where one term in fifty is new.
  void fit_anew(int fresh, std::initializer_list<View*> views) {
    if (++whole(fresh) * 50 <= (*views.begin())->count) return;
    for (View* v : views) fit_tails(*v, buffer(4));
    whole(fresh) = 0;
  }

  // Let a row and its step in; `known`: what they met is at hand. `clipped`: it raised an alert.
  void admit(const double* x, const double* step_, double weight, bool known, bool clipped) {
    enter(kRows, onkel::kLevelRowMass, x, weight, clipped);
    enter(kSteps, onkel::kLevelStepMass, step_, weight, clipped);
    double& seen = *real(onkel::kLevelSeen);
    seen += weight;
    const int64_t at = chosen(seen, weight, plain.count, plan.terms);
    if (at < 0) return;
    s.marks[at] = clipped;
    std::copy_n(x, d, s.raw + at * d);
    std::copy_n(step_, d, s.raw + (s.places + at) * d);
    if (*plain.width == 0) {  // nothing is judged yet: the refresh will see to it
      if (at == plain.count) ++plain.count, ++white.count, ++steps.count;
    } else {
      if (!known) look(x, step_);
      for (int k = 0; k < 3; ++k) meet_once(k);
      put(plain, at, q(0), reach[0], met[0], buffer(4));
      put(white, at, q(1), reach[1], met[1], buffer(4));
      put(steps, at, q(2), reach[2], met[2], buffer(4));
      fit_anew(onkel::kCountFresh, {&plain, &white, &steps});
    }
    whole(onkel::kCountSize) = plain.count;
  }

  // Let in the means that have waited long enough.
  void learn_late() {
    const int64_t t = whole(onkel::kCountT), until = t - std::min(plan.delay, t / 2);
    for (int64_t& next = whole(onkel::kCountLateSeen); next < until; ++next)
      admit_late(s.waiting + (next % s.waits) * d);
  }

  void admit_late(const double* x) {
    enter(kLate, onkel::kLevelLateMass, x, 1.0, false);
    double& seen = *real(onkel::kLevelLateWeight);
    seen += 1;
    const int64_t at = chosen(seen, 1.0, late.count, plan.late_terms);
    if (at < 0) return;
    std::copy_n(x, d, s.late_raw + at * d);
    if (*late.width == 0) {
      if (at == late.count) ++late.count;
    } else {
      seen_as(kLate, x, nullptr, q(3));
      put(late, at, q(3), 0, meet(late, q(3), buffer(3)), buffer(4));
      fit_anew(onkel::kCountLateFresh, {&late});
    }
    whole(onkel::kCountLateSize) = late.count;
  }

  // The level moves by a small step against its debt, and forgets what lies beyond its limits. A
  // row that is no alert for an answer's sake counts as one: others must not take its place.
  void settle_level(bool alert, bool hushed) {
    ++whole(onkel::kCountJudged);
    whole(onkel::kCountAlerts) += alert;
    if (hushed) ++s.answers.asked_count[1];
    double& level = *real(onkel::kLevelLogAlpha);
    level += plan.rate * (plan.nu - (alert || hushed ? 1.0 : 0.0));
    const double low = std::log(plan.low), high = std::log(plan.high);
    if (level < low) *real(onkel::kLevelForgiven) += low - level, level = low;
    if (level > high) *real(onkel::kLevelUnspent) += level - high, level = high;
    double& recent = *real(onkel::kLevelRecent);
    recent += ((alert ? 1.0 : 0.0) - recent) / 1000;
  }

  // Keep a row that raised an alert until it is due; `joined` is NaN where it is remembered.
  void hold(const double* x, double weight, double joined) {
    const int64_t t = whole(onkel::kCountT);
    const int64_t at = (whole(onkel::kCountHeldFirst) + whole(onkel::kCountHeld)++) % s.holds;
    double* row = s.held + at * (2 * d + 2);
    std::copy_n(x, d, row);
    std::copy_n(step.data(), d, row + d);
    row[2 * d] = weight;
    row[2 * d + 1] = joined;
    s.due[at] = t + 1 + std::min(plan.hold, t / 2);
  }

  // Let in the rows that are due, bounded and marked; of gross scores, half as many as promised.
  void release() {
    const int64_t t = whole(onkel::kCountT);
    int64_t &first = whole(onkel::kCountHeldFirst), &held = whole(onkel::kCountHeld);
    while (held > 0 && s.due[first] <= t) {
      const double* x = s.held + first * (2 * d + 2);
      admit(x, x + d, x[2 * d], false, true);
      if (!std::isnan(x[2 * d + 1]) && draw() < 0.5 * plan.nu / *real(onkel::kLevelRecent))
        remember(x[2 * d + 1]);
      first = first + 1 == s.holds ? 0 : first + 1;
      --held;
    }
  }

  // Learn the row that has just been judged; what is like a `fault` stays unknown. `shown`: the
  // alert was one, or nobody was told because the row's values are known one by one.
  void learn(const double* x, double weight, double joined, double score, bool alert, bool fault,
             bool shown, bool hushed) {
    const bool known = ready();
    const bool gross = alert && -score < level() - kGross;
    if (known && !gross && !fault) remember(joined);
    if (whole(onkel::kCountT) >= plan.warmup) settle_level(shown, hushed);
    if (fault)
      ;
    else if (alert)
      hold(x, weight, gross ? joined : NAN);
    else
      admit(x, step.data(), weight, known, false);
    const bool alarmed = alert || fault;  // during a warm-up a fault raises no alert
    if (!alarmed && !whole(onkel::kCountAlarmed)) take_calm(x, step.data());
    whole(onkel::kCountAlarmed) = alarmed;
    advance(x);
    learn_late();
    release();
    refresh();
  }

  // Take a row as the last one: sizes, running mean, and the mean's place in the queue.
  void advance(const double* x) {
    const int64_t t = whole(onkel::kCountT)++;
    const double share = 1 / std::min(static_cast<double>(t + 1), plan.memory);
    double& mass = *real(onkel::kLevelSmoothMass);
    mass = fade() * mass + 1;
    for (int64_t j = 0; j < d; ++j) {
      s.size[j] += share * (std::fabs(x[j]) - s.size[j]);
      s.smooth[j] = fade() * s.smooth[j] + x[j];
      s.last[j] = x[j];
      s.waiting[(t % s.waits) * d + j] = s.smooth[j] / mass;
    }
  }
};

// Judge each row, and learn it if it has a weight above 0; see Density::stop_from for where it
// ends.
void density(const DensityPlan& plan, Density& s) {
  Machine machine(plan, s);
  if (s.weight || !s.rows) machine.refresh();  // due only in a state that was put together by hand
  std::vector<double> row(static_cast<size_t>(s.d));
  double unseen[kMembers];
  for (int64_t i = 0; i < s.rows; ++i) {
    const double* x = s.x + i * s.d;
    for (int64_t j = 0; j < s.d; ++j) {  // a value that has not come is the mean so far
      const double v = std::isnan(x[j]) ? s.mean[j] : x[j];
      row[static_cast<size_t>(j)] = std::max(-kLargest, std::min(v, kLargest));
    }
    double joined, score;
    double* part = s.members ? s.members + i * kMembers : unseen;
    machine.judge(row.data(), &joined, &score, part);
    Heard h{.score = score, .alone = score};
    const double before = score;
    if (s.answers.count && machine.ready()) h = machine.heard(row.data(), score, part[8]);
    score = h.score;
    const double level = machine.level();
    const bool alert = s.whole[onkel::kCountT] >= plan.warmup && -score < level;
    const double said[] = {0 - score, level, alert ? 1.0 : 0.0, joined};
    std::copy_n(said, 4, s.out + i * 4);
    if (s.usual) machine.tell_usual(s.usual + 2 * i * s.d);
    const double weight = s.weight ? std::min(s.weight[i], plan.memory) : 0;
    s.done = i;
    if (alert && weight > 0 && s.stop_from >= 0 && i >= s.stop_from) return;
    if (weight > 0 && alert) machine.ask(row.data(), score, part[8]);
    // A row whose values are known one by one is no alert, but nobody has judged them together: it
    // is learned as if it were one.
    const bool late_too = !alert && s.whole[onkel::kCountT] >= plan.warmup && -h.alone < level;
    if (weight > 0)
      machine.learn(row.data(), weight, joined, late_too ? h.alone : score, alert || late_too,
                    h.fault, alert, !alert && -before < level);
  }
  s.done = s.rows;
}

}  // namespace
