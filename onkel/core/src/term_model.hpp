// A learner with terms in a cell: what onkel/learner does to one model with the lane of the core,
// refresh by refresh, here without a call into Python. Whatever is unusual (a row that the lane
// leaves undone, units out of range) is not done here: the caller puts the cell back as it was, and
// its rows are learned the general way (onkel/learner/base.py, whose words are used).
#pragma once
#include "term_cell.hpp"

namespace onkel {

template <class T>
void run_lane(Lane<T>& k) {
  if constexpr (sizeof(T) == 4)
    current_table().lane_f(k);
  else
    current_table().lane_d(k);
}

template <class T>
bool look_lane(Lane<T>& k) {
  if constexpr (sizeof(T) == 4)
    return current_table().look_f(k);
  else
    return current_table().look_d(k);
}

template <class T>
void run_sums(Program program, const Queries<T>& q, const Panels<T>& p, const T* weights,
              int64_t columns, double* out) {
  if constexpr (sizeof(T) == 4)
    current_table().sums_f(program, q, p, weights, columns, out);
  else
    current_table().sums_d(program, q, p, weights, columns, out);
}

constexpr double kSmallestSpread = 1e-290, kFarScale = 1e-3;
constexpr int64_t kEvery = 64, kGapped = 1024, kAhead = 8192;

// The trial after which the frame is taken anew (onkel/scaling.py).
inline int64_t next_refresh(int64_t t, double memory) {
  int64_t power = 1;
  while (power <= t) power *= 2;
  if (std::isinf(memory) || static_cast<double>(power) <= memory / 4) return power;
  const int64_t period = std::max<int64_t>(static_cast<int64_t>(memory / 4), 1);
  return (t / period + 1) * period;
}

// The unit of a column with these moments.
inline double spread_of(double mean, double variance, double eps) {
  const double spread = std::sqrt(variance), size = std::fabs(mean);
  if (spread > std::max(8 * eps * size, kSmallestSpread)) return spread;
  return size > 9007199254740992.0 ? 1e-6 * size : 1.0;
}

inline double power_of_two(int power) {
  if (power < -1022 || power > 1023) return std::ldexp(1.0, power);
  const uint64_t bits = static_cast<uint64_t>(power + 1023) << 52;
  double found;
  std::memcpy(&found, &bits, sizeof found);
  return found;
}

// Rows of one call for one model, and what goes with each.
template <class T>
struct Came {
  int64_t rows;
  const T* x;                               // [rows][d], NaN where a value has not come
  const double* y;                          // [rows][columns]
  const double *weight, *eta, *lam, *fade;  // fade: null where rows count
  const int64_t* oldest;
  const double* time;  // null where rows count
  double* usual;       // [rows][2][d] where means and variances are left, or null
};

// One model after another, each in its cell.
template <class T>
class TermModel {
 public:
  TermModel(const TermPlan& plan, Program program)
      : plan(plan),
        program(program),
        d(plan.d),
        unit_(at(d)),
        zeros_(at(d), 0.0),
        width_t_(at(d)) {}

  const TermPlan& plan;
  const Program program;
  const int64_t d;
  TermHead* h = nullptr;
  TermArrays<T> a;
  std::vector<double> score, limit;  // of the rows learned last, [rows][columns]

  static size_t at(int64_t n) { return static_cast<size_t>(n); }
  int64_t columns() const { return h->columns; }
  double& field(int64_t c, int f) const { return a.state[c * kFields + f]; }
  Byte* cell() const { return reinterpret_cast<Byte*>(h); }

  // Takes a cell up, whose terms are spread out; `put_down` brings them back.
  void take_up(Byte* cell) {
    bind(cell);
    spread_out();
  }

  void put_down() {
    if (in_place()) return;
    int64_t i = changed_ ? 0 : h->count;
    while (i > 0 && births_[at(slot(i - 1))] > since_) --i;
    for (; i < h->count; ++i) {
      const int64_t s = slot(i), place = s % h->room;
      for (int64_t j = 0; j < d; ++j) a.rows[j * h->room + place] = rows_[at(j * kLanes + s)];
      for (int64_t c = 0; c < columns(); ++c)
        a.coef[c * h->room + place] = coef_[at(c * kLanes + s)];
      a.norms[place] = norms_[at(s)];
      if (h->flags & kWide)
        a.wide_births[place] = births_[at(s)];
      else
        a.births[place] = static_cast<int32_t>(births_[at(s)]);
    }
  }

  // Lets the model be in another cell, which has its terms as they are now; the old one is freed by
  // the caller.
  void move_to(TermHead to) {
    put_down();
    Byte* now = other_term_cell<T>(plan, cell(), to);
    moved(now);
    take_up(now);
  }

  // -- learning

  // Learns rows as one call; false if any of it is unusual.
  bool learn(const Came<T>& came) {
    score.resize(at(came.rows * columns())), limit.resize(score.size());
    for (int64_t start = 0; start < came.rows;) {
      const int64_t done = learn_next(came, start, until_refresh(came, start));
      if (!done) return false;
      in_raw_units(start, done);
      if (h->t == 0) std::fill_n(score.data(), columns(), 0.0);  // nothing was known before it
      if (!advance(came, start, done)) return false;
      start += done;
    }
    return true;
  }

  // Learns a single row where everything is bound (onkel/learner/single_row.py): the scale is not
  // folded then. Returns -1 if that is not for here, and the model is as it was.
  int learn_bound(const Came<T>& came) {
    const int64_t trial = h->t + 1;
    if (!units_known() || trial >= next_refresh(h->t, plan.memory) || trial % kEvery == 0)
      return -1;
    if (came.time && !(came.time[0] < h->refreshed + plan.duration / 4)) return -1;
    for (int64_t c = 0; c < columns(); ++c) {
      const double scale = std::fabs(field(c, kFieldScale));
      if (!(std::fabs(came.y[c]) <= 1e150) || scale < 1e-3 || scale > 1e3) return -1;
    }
    const int64_t needed = std::min<int64_t>(h->count + 1, plan.cap);
    if (!fits(came.x) || needed > slots()) return -1;
    make_room(1);
    score.resize(at(columns())), limit.resize(score.size());
    if (!lane(came, 0, 1)) return 0;
    in_raw_units(0, 1);
    ++h->t;
    take_moments(came, 0, 1);
    if (came.time) h->clock = came.time[0];
    return 1;
  }

  // -- predicting

  // The scores of rows as things are, [rows][columns], in the targets' own units; false if one is
  // not finite.
  bool scores(const T* x, int64_t n, double* out) {
    std::vector<T> filled;
    x = fill(x, n, filled);
    std::vector<double> v(at(d));
    std::vector<T> q(at(n * d)), stored(at(n * d)), off(at(n)), norm(at(n));
    const Coordinates f = frame();
    for (int64_t i = 0; i < n; ++i) {
      f.store(x + i * d, v.data());
      off[at(i)] = f.query(v.data(), q.data() + i * d);
      norm[at(i)] = static_cast<T>(f.square(v.data()));
      std::transform(v.begin(), v.end(), stored.begin() + i * d, cast);
    }
    const int64_t c = columns();
    std::fill_n(out, n * c, 0.0);
    if (h->count) {
      std::vector<T> w(at(h->panels * c * kLanes));
      for (int64_t k = 0; k < h->panels * c * kLanes; ++k)
        w[at(k)] = cast(coefs()[k] * field(k / kLanes % c, kFieldScale));
      const Queries<T> asked{q.data(), stored.data(), off.data(), norm.data(), widths(), n, d, 0};
      const int64_t used =
          std::min<int64_t>((h->head % kLanes + h->count + kLanes - 1) / kLanes, h->panels);
      run_sums<T>(program, asked, {rows(), norms(), h->panels, h->head / kLanes, used}, w.data(), c,
                  out);
    }
    bool fine = true;
    for (int64_t i = 0; i < n * c; ++i) {
      out[i] = raw(out[i] + field(i % c, kFieldOffset), i % c);
      fine &= std::isfinite(out[i]);
    }
    return fine;
  }

  // The scores of one row as single rows have them (bound); false if that is not for here.
  bool look(const T* x, double* out) {
    if (!units_known() || !fits(x)) return false;
    Lane<T> k = lane_of();
    k.rows = 1, k.x = x, k.score = out;
    if (!look_lane(k)) return false;
    for (int64_t c = 0; c < columns(); ++c) out[c] = raw(out[c], c);
    return true;
  }

  bool units_known() const {
    const int64_t y = plan.targets ? columns() : 0;
    return h->t > 0 && std::all_of(a.units, a.units + y, [](uint8_t u) { return u; });
  }

 protected:
  // A cell was exchanged for a larger one, which is the model's from now on.
  virtual void moved(Byte* now) = 0;

 private:
  static T cast(double x) { return static_cast<T>(x); }

  // -- where things are

  bool in_place() const { return h->panels > 1; }
  int64_t slots() const { return int64_t{h->panels} * kLanes; }
  int64_t slot(int64_t i) const {
    const int64_t s = h->head + i;
    return s < slots() ? s : s - slots();
  }
  T* rows() { return in_place() ? a.rows : rows_.data(); }
  T* norms() { return in_place() ? a.norms : norms_.data(); }
  double* coefs() { return in_place() ? a.coef : coef_.data(); }
  int64_t* births() { return in_place() ? a.wide_births : births_.data(); }

  void bind(Byte* cell) {
    h = reinterpret_cast<TermHead*>(cell);
    a = TermArrays<T>(plan, *h, cell);
    std::transform(a.power, a.power + d, unit_.begin(), [](int16_t p) { return power_of_two(p); });
    since_ = h->t;
    changed_ = false;
  }

  // Terms of a ring of one panel as the lane takes them: what lies in a place stands in all slots
  // of that place, but only that of its term has a coefficient.
  void spread_out() {
    const int64_t c = columns(), room = h->room;
    if (!in_place()) {
      const int64_t n = h->panels ? kLanes : 0;
      rows_.resize(at(n * d)), norms_.resize(at(n)), births_.resize(at(n));
      coef_.assign(at(n * c), 0.0);
      if (room < kLanes / 4) {  // to fill all slots would cost more than to clear them
        std::fill(rows_.begin(), rows_.end(), T(0)), std::fill(norms_.begin(), norms_.end(), T(0));
        for (int64_t i = 0; i < h->count; ++i) spread_term(slot(i), slot(i) % room);
      }
      for (int64_t l = 0; room >= kLanes / 4 && l < n; l += room) {
        for (int64_t j = 0; j < d; ++j)
          std::copy_n(a.rows + j * room, room, rows_.data() + j * kLanes + l);
        std::copy_n(a.norms, room, norms_.data() + l);
        if (h->flags & kWide)
          std::copy_n(a.wide_births, room, births_.data() + l);
        else
          std::copy_n(a.births, room, births_.data() + l);
      }
      for (int64_t i = 0; i < h->count; ++i)
        for (int64_t k = 0; k < c; ++k)
          coef_[at(k * kLanes + slot(i))] = a.coef[k * room + slot(i) % room];
    }
    weigh();
  }

  void spread_term(int64_t s, int64_t place) {
    for (int64_t j = 0; j < d; ++j) rows_[at(j * kLanes + s)] = a.rows[j * h->room + place];
    norms_[at(s)] = a.norms[place];
    births_[at(s)] = h->flags & kWide ? a.wide_births[place] : a.births[place];
  }

  // The coefficients in the rows' own type.
  void weigh() {
    weights_.resize(at(h->panels * columns() * kLanes));
    std::transform(coefs(), coefs() + weights_.size(), weights_.begin(), cast);
  }

  const T* widths() {
    std::transform(a.width, a.width + d, width_t_.begin(), cast);
    return width_t_.data();
  }

  const double* shift() const { return plan.invariant ? zeros_.data() : a.shift; }

  Coordinates frame() const {
    return {d, 0, a.center, unit_.data(), a.width, shift(), 0.0, plan.invariant, plan.clip};
  }

  // Whether a row has none but numbers, none too large for the lane.
  bool fits(const T* x) const {
    const T most = static_cast<T>(std::min(1e152, 3e38 * (sizeof(T) == 4 ? 1 : 1e300)));
    return std::all_of(x, x + d, [most](T v) { return std::fabs(v) <= most; });
  }

  double raw(double score, int64_t c) const {
    return plan.targets ? a.target_center[c] + a.target_spread[c] * score : score;
  }

  void in_raw_units(int64_t start, int64_t n) {
    const int64_t c = columns();
    for (int64_t i = start * c; plan.targets && i < (start + n) * c; ++i) {
      score[at(i)] = raw(score[at(i)], i % c);
      limit[at(i)] = limit[at(i)] * a.target_spread[i % c];
    }
  }

  // Rows with missing values as what they stand for.
  const T* fill(const T* x, int64_t n, std::vector<T>& filled) const {
    if (!plan.gaps || std::none_of(x, x + n * d, [](T v) { return std::isnan(v); })) return x;
    filled.assign(x, x + n * d);
    for (int64_t i = 0; i < n * d; ++i)
      if (std::isnan(filled[at(i)])) filled[at(i)] = cast(a.means[i % d]);
    return filled.data();
  }

  // -- a piece of a call

  int64_t until_refresh(const Came<T>& came, int64_t start) const {
    int64_t n = std::min(came.rows - start, next_refresh(h->t, plan.memory) - h->t);
    const T* x = came.x + start * d;
    if (plan.gaps && n > kGapped && std::any_of(x, x + n * d, [](T v) { return std::isnan(v); }))
      n = kGapped;
    if (!came.time || std::isnan(h->refreshed)) return n;
    const double* time = came.time + start;
    return std::min(n,
                    std::lower_bound(time, time + n, h->refreshed + plan.duration / 4) - time + 1);
  }

  // The first row is met, targets get their units; returns how many rows may come at once.
  int64_t begin_block(const T* x, const double* y, int64_t n) {
    const int64_t c = plan.targets ? columns() : 0;
    if (h->t == 0) {  // there are no terms yet that would have to move
      if (plan.scale || plan.invariant) {
        std::copy_n(x, d, a.center);
        std::copy_n(x, d, a.frame_mean);
      }
      std::copy_n(y, c, a.target_center);
    }
    const auto fresh = [&](int64_t i, int64_t k) {
      const double gap = std::fabs(y[i * c + k] - a.target_center[k]);
      const double noise = 8 * std::numeric_limits<double>::epsilon();
      return !a.units[k] && gap > noise * std::fabs(a.target_center[k]);
    };
    const auto brings = [&](int64_t i) {
      for (int64_t k = 0; k < c; ++k)
        if (fresh(i, k)) return true;
      return false;
    };
    if (c == 0 || std::all_of(a.units, a.units + c, [](uint8_t u) { return u; })) return n;
    int64_t first = 0;
    while (first < n && !brings(first)) ++first;
    if (first > 0) return first;
    int64_t next = 1;
    while (next < n && !brings(next)) ++next;
    for (int64_t k = 0; k < c; ++k)
      if (fresh(0, k)) {
        a.target_spread[k] = std::fabs(y[k] - a.target_center[k]);
        a.units[k] = 1;
      }
    return next;
  }

  // Lets the lane learn some of these rows; returns how many, 0 if none.
  int64_t learn_next(const Came<T>& came, int64_t start, int64_t n) {
    n = std::min(n, kAhead);
    std::vector<T> filled;
    Came<T> now = came;
    if (plan.gaps) now.x = fill(came.x + start * d, n, filled) - start * d;
    const T* x = now.x + start * d;
    if (!units_known()) n = begin_block(x, came.y + start * columns(), n);
    if (n > 1 || (h->t + 1) % kEvery == 0) follow(x);
    make_room(n);
    const int64_t done = lane(now, start, n);
    if (done) fold_if_far();
    return done;
  }

  Lane<T> lane_of() {
    Lane<T> k{};
    k.program = program;
    k.d = d, k.columns = columns();
    k.center = a.center, k.unit = unit_.data(), k.width = a.width, k.shift = shift();
    k.width_t = widths();
    k.invariant = plan.invariant, k.clip = plan.clip;
    k.panels = rows(), k.norms = norms(), k.coef = coefs();
    k.weights = weights_.data(), k.births = births();
    k.capacity = h->panels, k.head = h->head, k.count = h->count, k.cap = plan.cap;
    k.budget = BudgetCode::kOldest;
    k.state = a.state;
    k.loss = plan.loss, k.rule = plan.rule, k.intercept = plan.intercept, k.needs_norm = false;
    k.threads = 1;
    return k;
  }

  int64_t lane(const Came<T>& came, int64_t start, int64_t n) {
    const int64_t c = columns();
    const double* y = came.y + start * c;
    if (plan.targets) {
      y_.assign(y, y + n * c);
      for (int64_t i = 0; i < n * c; ++i)
        y_[at(i)] = (y_[at(i)] - a.target_center[i % c]) / a.target_spread[i % c];
      y = y_.data();
    }
    kept_.assign(at(n), 0);
    Lane<T> k = lane_of();
    k.rows = n, k.first_trial = h->t + 1;
    k.x = came.x + start * d, k.y = y, k.weight = came.weight + start;
    k.eta = came.eta + start, k.lam = came.lam + start, k.oldest = came.oldest + start;
    k.score = score.data() + start * c, k.limit = limit.data() + start * c;
    k.kept = kept_.data();
    run_lane(k);
    h->head = static_cast<int32_t>(k.head), h->count = static_cast<int32_t>(k.count);
    return k.done;
  }

  // Room for so many more terms, in the ring and (of a single panel) in the cell.
  void make_room(int64_t n) {
    const int64_t needed = std::min(h->count + n, plan.cap);
    TermHead to = *h;
    if (needed > slots()) {
      const int64_t enough = (needed + kLanes - 1) / kLanes;
      const int64_t limit = std::min(plan.limit, int64_t{1} << 40);
      const int64_t most = std::max((limit + kLanes - 1) / kLanes, enough);
      const double more = 1.5 * static_cast<double>(h->panels);
      to.panels =
          static_cast<int32_t>(std::min(std::max(enough, static_cast<int64_t>(more) + 1), most));
    }
    if (to.panels == 1)
      while (to.room < needed) to.room = to.room ? 2 * to.room : 4;
    if (to.panels == h->panels && to.room == h->room && (h->t + n < kNarrow || h->flags & kWide))
      return;
    if (h->t + n >= kNarrow) to.flags |= kWide;
    const int64_t since = since_;
    move_to(to);
    since_ = since, changed_ = true;
  }

  // A centre near the data, where these have left it behind (kernels of differences only).
  void follow(const T* x) {
    if (!plan.invariant || !h->count) return;
    const int64_t n = std::min<int64_t>(h->count, kLanes);
    v_.resize(at(2 * d)), recent_.resize(at(n * d));
    for (int64_t j = 0; j < d; ++j)
      v_[at(j)] = (static_cast<double>(x[j]) - a.center[j]) * unit_[at(j)];
    for (int64_t i = 0; i < n; ++i) {
      const int64_t s = slot(h->count - n + i);
      const T* row = rows() + s / kLanes * d * kLanes + s % kLanes;
      for (int64_t j = 0; j < d; ++j) recent_[at(i * d + j)] = static_cast<double>(row[j * kLanes]);
    }
    double* middle = v_.data() + d;
    if (!frame().left_behind(v_.data(), recent_.data(), n, middle)) return;
    old_center_.assign(a.center, a.center + d), old_unit_ = unit_;
    for (int64_t j = 0; j < d; ++j) a.center[j] = middle[j] / unit_[at(j)] + a.center[j];
    reframed();
  }

  // Terms as the present frame stores them; what it was stands aside.
  void reframed() {
    const bool same =
        std::equal(old_center_.begin(), old_center_.end(), a.center) && old_unit_ == unit_;
    const Coordinates f = frame();
    for (int64_t i = 0; i < h->count; ++i) {
      const int64_t s = slot(i);
      T* row = rows() + s / kLanes * d * kLanes + s % kLanes;
      for (int64_t j = 0; !same && j < d; ++j) {
        const size_t k = at(j);
        row[j * kLanes] = cast(static_cast<double>(row[j * kLanes]) * (unit_[k] / old_unit_[k]) +
                               (old_center_[k] - a.center[j]) * unit_[k]);
      }
      norms()[s] = static_cast<T>(f.square(row, kLanes));
    }
    changed_ = true;
  }

  // Replaces every output's f by a multiple of it.
  template <class Factor>
  void remix(Factor factor) {
    const int64_t c = columns();
    for (int64_t k = 0; k < h->panels * c * kLanes; ++k)
      coefs()[k] = 0.0 + coefs()[k] * factor(k / kLanes % c);
    weigh();
    changed_ = true;
  }

  void fold_if_far() {
    bool far = false;
    for (int64_t c = 0; c < columns(); ++c) {
      const double size = std::fabs(field(c, kFieldScale));
      far |= size < kFarScale || size * kFarScale > 1;
    }
    if (!far) return;
    remix([this](int64_t c) { return field(c, kFieldScale); });
    for (int64_t c = 0; c < columns(); ++c) field(c, kFieldScale) = 1.0;
  }

  void take_moments(const Came<T>& came, int64_t start, int64_t n) {
    const Running of_rows{d,          a.seen,      a.mean,           a.variance, plan.horizon,
                          !plan.gaps, plan.steady, plan.gaps ? d : 1};
    const Running of_targets{columns(),    a.target_seen, a.target_mean, a.target_variance,
                             plan.horizon, true,          true,          columns()};
    for (int64_t i = start; i < start + n; ++i) {
      const double fade = came.fade ? came.fade[i] : 1.0;
      if (came.usual) {
        std::copy_n(a.mean, d, came.usual + 2 * i * d);
        std::copy_n(a.variance, d, came.usual + (2 * i + 1) * d);
      }
      if (plan.moments()) of_rows.take(came.x + i * d, fade);
      if (plan.targets) of_targets.take(came.y + i * columns(), fade);
    }
  }

  // Moves clock and moments on; false if units have left the floating range.
  bool advance(const Came<T>& came, int64_t start, int64_t n) {
    h->t += n;
    take_moments(came, start, n);
    bool due = next_refresh(h->t - 1, plan.memory) == h->t;
    if (came.time) {
      h->clock = came.time[start + n - 1];
      const double since = std::isnan(h->refreshed) ? h->clock : h->refreshed;
      due |= h->clock >= since + plan.duration / 4;
    }
    if (!due) return true;
    if (came.time) h->refreshed = h->clock;
    refresh(came.x + (start + n - 1) * d);
    return sound();
  }

  // Takes frame and targets' units over from the moments; x is the last row learned.
  void refresh(const T* x) {
    if (plan.gaps) std::copy_n(a.mean, d, a.means);
    if (!plan.scale) return;
    old_center_.assign(a.center, a.center + d), old_unit_ = unit_;
    std::copy_n(a.mean, d, a.frame_mean);
    for (int64_t j = 0; j < d; ++j) {
      const double spread = spread_of(a.mean[j], a.variance[j], plan.eps);
      int power;
      const double fraction = std::frexp(spread, &power);
      a.power[j] = static_cast<int16_t>((fraction == 0.5) - power);
      const double unit = unit_[at(j)] = power_of_two(a.power[j]);
      a.width[j] = 1.0 / (spread * unit);
      if (!plan.invariant) {
        const double row = std::isnan(x[j]) ? a.mean[j] : static_cast<double>(x[j]);
        if (std::fabs(a.mean[j] - a.center[j]) > 4.0 * spread) a.center[j] = row;
        a.shift[j] = (a.mean[j] - a.center[j]) * unit;
      }
      a.known[j] |= a.variance[j] > 0;
    }
    reframed();
    if (plan.targets) rescale_targets();
  }

  void rescale_targets() {
    std::vector<double> ratios(at(columns()));
    for (int64_t c = 0; c < columns(); ++c) {
      const double eps = std::numeric_limits<double>::epsilon();
      const double spread =
          a.units[c] ? spread_of(a.target_mean[c], a.target_variance[c], eps) : a.target_spread[c];
      const double ratio = ratios[at(c)] = a.target_spread[c] / spread;
      const double move = (a.target_center[c] - a.target_mean[c]) / spread;
      if (plan.intercept) {
        field(c, kFieldOffset) = ratio * field(c, kFieldOffset) + move;
        field(c, kFieldOffsetSum) =
            ratio * field(c, kFieldOffsetSum) + move * field(c, kFieldTrials);
      }
      if (plan.adaptive) field(c, kFieldThreshold) *= ratio;
      field(c, kFieldNorm2) *= ratio * ratio;
      field(c, kFieldDropped) *= ratio;
      field(c, kFieldDroppedAverage) *= ratio;
      a.target_center[c] = a.target_mean[c], a.target_spread[c] = spread;
    }
    remix([&ratios](int64_t c) { return ratios[at(c)]; });
  }

  // Whether units, and f in them, are inside the floating range.
  bool sound() {
    bool fine = true;
    for (int64_t j = 0; j < d; ++j)
      fine &= std::min(unit_[at(j)], a.width[j]) > 0 &&
              std::isfinite(a.center[j] + unit_[at(j)] + a.width[j] + shift()[j] + a.frame_mean[j]);
    for (int64_t c = 0; c < columns(); ++c) {
      fine &= field(c, kFieldScale) != 0;
      for (int f = 0; f < kFields; ++f)
        if (f < kFieldLoss || f >= kFieldMarginErrors) fine &= std::fabs(field(c, f)) < kMostState;
      if (plan.targets)
        fine &= std::isfinite(a.target_center[c] + a.target_spread[c]) && a.target_spread[c] > 0;
    }
    double sum = 0;
    for (int64_t k = 0; k < h->panels * columns() * kLanes; ++k) sum += coefs()[k];
    for (int64_t k = 0; k < h->panels * d * kLanes; ++k) fine &= !std::isnan(rows()[k]);
    return fine && std::isfinite(sum);
  }

  std::vector<double> unit_, zeros_;
  std::vector<T> width_t_;
  std::vector<T> rows_, norms_, weights_;  // terms that are spread out
  std::vector<double> coef_;
  std::vector<int64_t> births_;
  int64_t since_ = 0;     // trials when the cell was taken up: later terms are new,
  bool changed_ = false;  // unless all may have changed
  std::vector<double> y_, v_, recent_, old_center_, old_unit_;  // room for a call
  std::vector<uint8_t> kept_;
};

}  // namespace onkel
