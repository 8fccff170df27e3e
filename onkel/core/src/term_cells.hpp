// Kernel models of one plan, by number: what their estimators do around a learner (warm-up, recent
// scores, classes that appear late, odds), key by key, and calls that are learned whole or not at
// all.
#pragma once
#include <memory>
#include <mutex>

#include "term_model.hpp"

namespace onkel {

// Rows of a call in the order in which they came, and where to leave what is found.
template <class T>
struct TermCall {
  int64_t rows;
  const int64_t* cells;   // [rows] whose each is
  const T* x;             // [rows][d]
  const double* y;        // [rows][outputs] of regression, else null
  const int32_t* labels;  // [rows] of classification, else null
  const double *weight, *eta, *lam;
  const double *fade, *time;  // null where forgetting goes by rows
  const int64_t* oldest;
  int64_t outputs;        // of regression
  bool flat;              // whether its targets came as one number per row, not as rows of them
  bool bound, ranked;     // a single row, as learn_one takes it; ranks are wanted
  int64_t wide;           // numbers that a row has in `score` and `limit`
  double *score, *limit;  // [rows][wide]; of classification the second are the odds
  double* more;           // [rows][3] of novelty: alert, rank, rows learned before
  double* usual;          // [rows][2][d] means and variances before each row, or null
  int32_t* kinds;         // [rows][2] of classification: which labels its numbers belong to, and
                          // which there are at the end of the call
};

// Which labels the outputs of a classifier belong to, each once; -1 stands for one not seen yet.
class Kinds {
 public:
  int32_t of(const int32_t* labels, int64_t count, bool binary) {
    const std::lock_guard<std::mutex> guard(lock_);
    const auto alike = [&](const std::vector<int32_t>& kind) {
      return static_cast<int64_t>(kind.size()) == count + 1 && kind.back() == binary &&
             std::equal(labels, labels + count, kind.begin());
    };
    if (last_ < all_.size() && alike(all_[last_])) return static_cast<int32_t>(last_);
    last_ = static_cast<size_t>(std::find_if(all_.begin(), all_.end(), alike) - all_.begin());
    if (last_ == all_.size()) {
      all_.emplace_back(labels, labels + count);
      all_.back().push_back(binary);
    }
    return static_cast<int32_t>(last_);
  }
  const std::vector<std::vector<int32_t>>& all() const { return all_; }

 private:
  std::mutex lock_;
  std::vector<std::vector<int32_t>> all_;
  size_t last_ = 0;
};

// One key's model.
template <class T>
class KeyModel : public TermModel<T> {
 public:
  using Base = TermModel<T>;
  using Base::a;
  using Base::columns;
  using Base::h;
  using Base::plan;

  KeyModel(const TermPlan& plan, Program program, Cells& cells)
      : Base(plan, program), cells_(cells) {}

  // Takes up the cell of this number, a fresh one if it has learned nothing.
  void open(int64_t number) {
    number_ = number;
    if (!cells_.at(number)) cells_.put(number, fresh_term_cell<T>(plan));
    this->take_up(cells_.at(number));
  }

  bool binary() const { return h->flags & kBinary; }

  // One output more, which starts at 0, for the model and its link.
  void add_column() {
    TermHead to = *h;
    ++to.columns;
    this->move_to(to);
    const int64_t c = columns() - 1;
    this->field(c, kFieldScale) = 1.0;
    this->field(c, kFieldThreshold) = this->field(c, kFieldAlert) = plan.start;
    if (plan.targets) a.target_spread[c] = 1.0;
    if (!plan.link) return;
    const int64_t classes = std::max<int64_t>(columns(), 2);
    double *offset = a.link + kLink, *bend = offset + classes;
    if (columns() <= 2) {  // what the link compared has changed: it begins anew
      a.link[0] = 2.0, a.link[1] = kPrior, a.link[2] = 0.02;
      std::fill_n(offset, classes, 0.0), std::fill_n(bend, classes, kPrior);
      return;
    }
    double mean = 0;
    for (int64_t k = 0; k < c; ++k) mean += offset[k];
    offset[c] = mean / static_cast<double>(c), bend[c] = kPrior;
  }

  Chances chances() {
    Chances s{};
    s.members = s.experts = 1, s.outputs = columns();
    s.classes = std::max<int64_t>(columns(), 2);
    s.link = a.link, s.offset = s.link + kLink, s.bend = s.offset + s.classes;
    double* lone = s.bend + s.classes;
    s.joint = lone, s.bow = lone + 2, s.said = lone + 3, s.weights = lone + 4, s.losses = lone + 5;
    s.count = a.linked;
    return s;
  }

  // Room for a row's odds, made anew where the number of classes is another.
  ChancesRoom& chances_room() {
    const Chances s = chances();
    if (!odds_ || static_cast<int64_t>(odds_->told.size()) != s.classes)
      odds_ = std::make_unique<ChancesRoom>(s);
    return *odds_;
  }

  Recent recent() const {
    return {a.recent, h->recent_room, plan.recent, &h->recent_at, &h->recent_count};
  }

  int64_t place_of(int32_t label) const {
    return std::find(a.labels, a.labels + h->labels, label) - a.labels;
  }
  bool knows(int32_t label) const { return place_of(label) < h->labels; }

 protected:
  void moved(Byte* now) override { cells_.put(number_, now); }

 private:
  Cells& cells_;
  int64_t number_ = 0;
  std::unique_ptr<ChancesRoom> odds_;
};

template <class T>
class TermCells {
 public:
  enum Task { kNovelty, kClassification, kRegression };

  TermCells(const TermPlan& plan, Task task, std::vector<Node> nodes)
      : plan(plan), task(task), nodes_(std::move(nodes)) {}

  Program program() const { return {nodes_.data(), static_cast<int>(nodes_.size())}; }

  // What a thread needs for one cell after another.
  struct Room {
    explicit Room(TermCells& own) : model(own.plan, own.program(), own.cells) {}
    KeyModel<T> model;
    std::vector<T> x;
    std::vector<double> y, weight, eta, lam, fade, time, odds, usual;
    std::vector<int64_t> oldest, edges;
    std::vector<int32_t> labels, fresh;
    std::vector<Byte> image;
    Came<T> came;
  };

  // Learns the rows of one cell; false if they are unusual, and then nothing has changed.
  bool learn(const TermCall<T>& call, const int64_t* rows, int64_t n, Kinds& kinds, Room& room) {
    const int64_t number = call.cells[rows[0]];
    gather(call, rows, n, room);
    const Byte* was = cells.at(number);
    room.image.assign(was, was ? was + size_of(was) : was);
    room.model.open(number);
    bool fine = false;
    switch (task) {
      case kNovelty:
        fine = detect(call, rows, n, room);
        break;
      case kClassification:
        fine = classify(call, rows, n, kinds, room);
        break;
      case kRegression:
        fine = regress(call, rows, n, room);
        break;
    }
    if (!fine) {
      put_back(number, room.image.data(), whole(room.image));
      return false;
    }
    room.model.put_down();
    for (int64_t i = 0; call.usual && i < n; ++i)
      std::copy_n(room.usual.data() + 2 * plan.d * i, 2 * plan.d,
                  call.usual + 2 * plan.d * rows[i]);
    if (!call.bound) keep(number, room.image.data(), whole(room.image));
    return true;
  }

  // Room for single rows, kept from one to the next.
  Room& single() {
    if (!single_) single_ = std::make_unique<Room>(*this);
    return *single_;
  }

  // Looks at rows of one cell that has learned something; false if that must be done elsewhere.
  bool look(const TermCall<T>& call, const int64_t* rows, int64_t n, Kinds& kinds, Room& room) {
    KeyModel<T>& m = room.model;
    m.open(call.cells[rows[0]]);
    room.x.resize(at(n * plan.d));
    for (int64_t i = 0; i < n; ++i)
      std::copy_n(call.x + rows[i] * plan.d, plan.d, room.x.data() + i * plan.d);
    const int64_t c = m.columns();
    std::vector<double> found(at(n * c));
    if (!(call.bound && m.look(room.x.data(), found.data())) &&
        !m.scores(room.x.data(), n, found.data()))
      return false;
    const bool classes = task == kClassification;
    const int32_t kind = classes ? kinds.of(m.a.labels, m.h->labels, m.binary()) : 0;
    for (int64_t i = 0; i < n; ++i) {
      const double* score = found.data() + i * c;
      put(call, rows[i], score, c);
      if (classes) {
        tell(m, score, call.limit + rows[i] * call.wide);
        call.kinds[2 * rows[i]] = call.kinds[2 * rows[i] + 1] = kind;
        continue;
      }
      for (int64_t k = 0; k < c; ++k) call.limit[rows[i] * call.wide + k] = limit_of(m, k);
      if (task == kNovelty) {
        const bool alert = score[0] - limit_of(m, 0) < 0 && m.h->t >= plan.warmup;
        tell_more(call, rows[i], alert, call.ranked ? m.recent().rank(score[0]) : NAN, m.h->t);
      }
    }
    return true;
  }

  // The most outputs of some cells.
  int64_t widest(const int64_t* numbers, int64_t n) const {
    int64_t most = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Byte* cell = cells.at(numbers[i]);
      if (cell) most = std::max<int64_t>(most, term_head(cell).columns);
    }
    return most;
  }

  // Rows learned, terms, alerts and the weight of their rows since the warm-up, mistakes.
  void counts(int64_t number, double* out) const {
    std::fill_n(out, 5, 0.0);
    Byte* cell = cells.at(number);
    if (!cell) return;
    const TermHead h = term_head(cell);
    out[0] = static_cast<double>(h.t), out[1] = static_cast<double>(h.count);
    out[4] = static_cast<double>(h.mistakes);
    if (task != kNovelty || h.t < plan.warmup) return;
    const TermArrays<T> a(plan, h, cell);
    out[2] = a.state[kFieldAlerts] - (h.flags & kWarm ? a.warm[1] : 0.0);
    out[3] = a.state[kFieldWeight] - (h.flags & kWarm ? a.warm[0] : 0.0);
  }

  // Whether a cell is such as rows can have left; nothing is believed.
  bool sound(Byte* cell) const;  // in sound_cells.hpp

  // -- a call is learned whole, or not at all

  // Lets all cells be what they were before the call.
  void undo() {
    for (const Kept& kept : kept_) put_back(kept.number, images_.data() + kept.offset, kept.size);
    done();
  }

  // The call has succeeded.
  void done() {
    kept_.clear();
    images_.clear();
    if (images_.capacity() > kMostImages) std::vector<Byte>().swap(images_);
  }

  // Notes what a cell is, before it changes.
  void keep(int64_t number) {
    const Byte* cell = cells.at(number);
    keep(number, cell, cell ? size_of(cell) : 0);
  }

  const TermPlan plan;
  const Task task;
  std::vector<int32_t> sides;  // of each label: 0 or 1 where two share an output, else -1
  Cells cells;

 private:
  struct Kept {
    int64_t number;
    size_t offset;
    int64_t size;
  };
  static constexpr size_t kMostImages = size_t{1} << 26;

  static size_t at(int64_t n) { return static_cast<size_t>(n); }
  template <class V>
  static int64_t whole(const V& v) {
    return static_cast<int64_t>(v.size());
  }

  void keep(int64_t number, const Byte* image, int64_t size) {
    const std::lock_guard<std::mutex> guard(lock_);
    kept_.push_back({number, images_.size(), size});
    images_.insert(images_.end(), image, image + size);
  }

  void put_back(int64_t number, const Byte* image, int64_t size) {
    Byte* was = size ? new_cell(size) : nullptr;
    if (was) std::memcpy(was, image, at(size));
    cells.put(number, was);
  }

  void gather(const TermCall<T>& call, const int64_t* rows, int64_t n, Room& room) const {
    const auto take = [&](const auto* from, int64_t width, auto& to) {
      to.resize(at(from ? n * width : 0));
      for (int64_t i = 0; from && i < n; ++i)
        std::copy_n(from + rows[i] * width, width, to.data() + i * width);
    };
    take(call.x, plan.d, room.x), take(call.y, call.outputs, room.y);
    take(call.labels, 1, room.labels), take(call.oldest, 1, room.oldest);
    take(call.weight, 1, room.weight), take(call.eta, 1, room.eta), take(call.lam, 1, room.lam);
    take(call.fade, 1, room.fade), take(call.time, 1, room.time);
    if (task == kNovelty) room.y.assign(at(n), 0.0);
    room.came = {n,
                 room.x.data(),
                 room.y.data(),
                 room.weight.data(),
                 room.eta.data(),
                 room.lam.data(),
                 call.fade ? room.fade.data() : nullptr,
                 room.oldest.data(),
                 call.time ? room.time.data() : nullptr,
                 nullptr};
    room.usual.resize(at(call.usual ? 2 * plan.d * n : 0));
    if (call.usual) room.came.usual = room.usual.data();
  }

  // Learns rows start ... stop - 1; `bound`: a single one, the cheap way where that is possible.
  bool learn_part(Room& room, int64_t start, int64_t stop, bool bound) const {
    KeyModel<T>& m = room.model;
    Came<T> p = room.came;
    p.rows = stop - start, p.x += start * plan.d, p.y += start * m.columns(), p.weight += start;
    p.eta += start, p.lam += start, p.oldest += start;
    if (p.fade) p.fade += start;
    if (p.time) p.time += start;
    if (p.usual) p.usual += 2 * start * plan.d;
    if (bound) {
      const int done = m.learn_bound(p);
      if (done >= 0) return done;
      if (p.time) return false;  // elsewhere what is left of the past has other last bits
    }
    return m.learn(p);
  }

  static void put(const TermCall<T>& call, int64_t row, const double* score, int64_t columns) {
    std::copy_n(score, columns, call.score + row * call.wide);
  }

  static void tell_more(const TermCall<T>& call, int64_t row, bool alert, double rank,
                        int64_t age) {
    double* to = call.more + 3 * row;
    to[0] = alert, to[1] = rank, to[2] = static_cast<double>(age);
  }

  // The threshold of now (novelty: that of alerts), in the targets' units.
  double limit_of(const KeyModel<T>& m, int64_t c) const {
    if (task == kNovelty) return m.field(c, kFieldAlert);
    const double width = m.field(c, kFieldThreshold);
    return plan.targets ? width * m.a.target_spread[c] : width;
  }

  // -- novelty

  // Room for the scores of n more rows, and for what is noted at the end of the warm-up.
  void make_room(KeyModel<T>& m, int64_t n, bool warms) const {
    TermHead to = *m.h;
    to.recent_room =
        static_cast<int32_t>(Recent::room_for(m.h->recent_room, m.h->recent_count, n, plan.recent));
    if (warms) to.flags |= kWarm;
    if (to.recent_room != m.h->recent_room || to.flags != m.h->flags) m.move_to(to);
  }

  bool detect(const TermCall<T>& call, const int64_t* rows, int64_t n, Room& room) const {
    KeyModel<T>& m = room.model;
    if (!m.columns()) m.add_column();
    const int64_t before = m.h->t, left = plan.warmup - before;
    const int64_t cut = left > 0 && left <= n ? left : 0;
    make_room(m, n, cut > 0);
    for (int64_t start = 0, stop = cut > 0 ? cut : n; start < n; start = stop, stop = n) {
      if (!learn_part(room, start, stop, call.bound)) return false;
      for (int64_t i = start; i < stop; ++i) {
        const double score = m.score[at(i - start)], limit = m.limit[at(i - start)];
        put(call, rows[i], &score, 1);
        call.limit[rows[i] * call.wide] = limit;
        const bool alert = score - limit < 0 && before + i >= plan.warmup;
        tell_more(call, rows[i], alert, call.ranked ? m.recent().rank(score) : NAN, before + i);
        m.recent().add(score);
      }
      if (stop != cut) continue;
      m.a.warm[0] = m.field(0, kFieldWeight), m.a.warm[1] = m.field(0, kFieldAlerts);
      m.a.warm[2] = m.field(0, kFieldAlert);
    }
    return true;
  }

  bool regress(const TermCall<T>& call, const int64_t* rows, int64_t n, Room& room) const {
    KeyModel<T>& m = room.model;
    if (!m.columns() && call.flat) m.h->flags |= kOneTarget;
    while (!m.h->t && m.columns() < call.outputs) m.add_column();
    const int64_t c = m.columns();
    if (c != call.outputs || !learn_part(room, 0, n, call.bound)) return false;
    for (int64_t i = 0; i < n; ++i) {
      put(call, rows[i], m.score.data() + i * c, c);
      std::copy_n(m.limit.data() + i * c, c, call.limit + rows[i] * call.wide);
    }
    return true;
  }

  // -- classes

  // Takes in a label; false if that would take a shared output apart (onkel/estimators/classes.py).
  static bool admit(KeyModel<T>& m, int32_t label, int32_t side) {
    TermHead to = *m.h;
    if (!to.labels && side >= 0) {
      to.flags |= kBinary;
      to.labels = 2;
      m.move_to(to);
      std::fill_n(m.a.labels, 2, -1);
      m.add_column();
    }
    if (m.binary()) {
      if (side < 0 || m.a.labels[side] >= 0) return false;
      m.a.labels[side] = label;
      return true;
    }
    ++to.labels;
    m.move_to(to);
    m.a.labels[to.labels - 1] = label;
    m.add_column();
    return true;
  }

  // What scores mean as odds, as things are.
  static void tell(KeyModel<T>& m, const double* scores, double* told) {
    if (!m.plan.link || !m.columns()) {
      std::copy_n(scores, m.columns(), told);
      return;
    }
    const Chances s = m.chances();
    answer(s, scores, m.chances_room());
    onkel::tell(s, m.chances_room(), told);
  }

  // Writes +1 and -1 for each output.
  static void aim(const KeyModel<T>& m, int32_t label, double* y) {
    if (m.binary()) {
      *y = label == m.a.labels[1] ? 1.0 : -1.0;
      return;
    }
    for (int64_t c = 0; c < m.columns(); ++c) y[c] = m.a.labels[c] == label ? 1.0 : -1.0;
  }

  // Whether the class of a row does not score strictly above the rest.
  static bool is_mistake(const KeyModel<T>& m, const double* y, const double* score) {
    if (m.binary()) return y[0] * score[0] <= 0;
    double own = -HUGE_VAL, others = -HUGE_VAL;
    for (int64_t c = 0; c < m.columns(); ++c)
      (y[c] > 0 ? own : others) = std::max(y[c] > 0 ? own : others, score[c]);
    return own <= others;
  }

  static constexpr int64_t kMany =
      8;  // new classes in a call that are taken in together, elsewhere

  bool classify(const TermCall<T>& call, const int64_t* rows, int64_t n, Kinds& kinds,
                Room& room) const {
    KeyModel<T>& m = room.model;
    auto &edges = room.edges, &fresh = room.fresh;  // rows that bring a label, and which
    edges.clear(), fresh.clear();
    for (int64_t i = 0; i < n; ++i) {
      const int32_t label = room.labels[at(i)];
      if (m.knows(label) || std::find(fresh.begin(), fresh.end(), label) != fresh.end()) continue;
      edges.push_back(i), fresh.push_back(label);
    }
    if (whole(fresh) >= kMany) return false;
    const int64_t known = edges.empty() ? n : edges[0];
    if (!classify_part(call, rows, 0, known, false, kinds, room)) return false;
    for (size_t e = 0; e < edges.size(); ++e) {
      const int64_t start = edges[e], stop = e + 1 < edges.size() ? edges[e + 1] : n;
      if (!before(call, rows[start], room.x.data() + start * plan.d, kinds, m)) return false;
      if (!admit(m, fresh[e], sides[at(fresh[e])])) return false;
      if (!classify_part(call, rows, start, stop, true, kinds, room)) return false;
    }
    const int32_t last = kinds.of(m.a.labels, m.h->labels, m.binary());
    for (int64_t i = 0; i < n; ++i) call.kinds[2 * rows[i] + 1] = last;
    count(room, n);
    return true;
  }

  // What is said of a row whose class is not known yet.
  bool before(const TermCall<T>& call, int64_t row, const T* x, Kinds& kinds,
              KeyModel<T>& m) const {
    std::vector<double> score(at(m.columns()));
    if (m.columns() > call.wide || !m.scores(x, 1, score.data())) return false;
    put(call, row, score.data(), m.columns());
    tell(m, score.data(), call.limit + row * call.wide);
    call.kinds[2 * row] = kinds.of(m.a.labels, m.h->labels, m.binary());
    return true;
  }

  // Learns rows of known labels; the first may have been told of already.
  bool classify_part(const TermCall<T>& call, const int64_t* rows, int64_t start, int64_t stop,
                     bool told, Kinds& kinds, Room& room) const {
    KeyModel<T>& m = room.model;
    const int64_t c = m.columns();
    if (stop == start) return true;
    if (c > call.wide) return false;
    room.y.resize(at(room.came.rows * c));
    room.came.y = room.y.data();
    for (int64_t i = start; i < stop; ++i) aim(m, room.labels[at(i)], room.y.data() + i * c);
    const bool two = std::count(m.a.labels, m.a.labels + m.h->labels, -1) + 2 <= m.h->labels;
    if (!learn_part(room, start, stop, call.bound && two && !told)) return false;
    const int32_t kind = kinds.of(m.a.labels, m.h->labels, m.binary());
    room.odds.resize(at(c));
    for (int64_t i = start; i < stop; ++i) {
      const double *y = room.y.data() + i * c, *score = m.score.data() + (i - start) * c;
      link_row(m, score, y, room.odds.data());
      const bool first = told && i == start;
      m.h->mistakes += first || is_mistake(m, y, score);
      if (first) continue;
      put(call, rows[i], score, c);
      std::copy(room.odds.begin(), room.odds.end(), call.limit + rows[i] * call.wide);
      call.kinds[2 * rows[i]] = kind;
    }
    return true;
  }

  static void link_row(KeyModel<T>& m, const double* score, const double* y, double* told) {
    const int64_t c = m.columns();
    if (!m.plan.link) {
      std::copy_n(score, c, told);
      return;
    }
    const int64_t place = c == 1 ? y[0] > 0 : std::max_element(y, y + c) - y;
    learn_chances(m.chances(), score, place, m.chances_room(), told);
  }

  // How often each label came.
  static void count(Room& room, int64_t n) {
    KeyModel<T>& m = room.model;
    const auto place = [&m](int32_t label) {
      return std::find(m.a.counted, m.a.counted + m.h->counted, label) - m.a.counted;
    };
    for (int64_t i = 0; i < n; ++i) {
      const int32_t label = room.labels[at(i)];
      if (place(label) == m.h->counted) {
        TermHead to = *m.h;
        ++to.counted;
        m.move_to(to);
        m.a.counted[to.counted - 1] = label;
      }
      ++m.a.counts[place(label)];
    }
  }

  std::vector<Node> nodes_;
  std::unique_ptr<Room> single_;
  std::mutex lock_;
  std::vector<Kept> kept_;
  std::vector<Byte> images_;
};

}  // namespace onkel
