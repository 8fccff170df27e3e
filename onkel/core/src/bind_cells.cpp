// Fleets for Python: many small models behind one call.
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "sound_cells.hpp"

namespace {

using namespace seam;
using onkel::Byte;
using onkel::Cells;
using onkel::DensityCells;
using onkel::Groups;
using onkel::Kinds;
using onkel::TermCall;
using onkel::TermCells;

// Refuses numbers of cells that there are none of, or (`begun`) that have learned nothing.
void check_cells(const Cells& cells, const In<int64_t>& numbers, bool begun) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t k = numbers.data()[i];
    require(k >= 0 && k < cells.count() && (!begun || cells.at(k)), "there is no such cell");
  }
}

nb::bytes bytes_of(const Byte* cell) {
  return nb::bytes(reinterpret_cast<const char*>(cell), static_cast<size_t>(onkel::size_of(cell)));
}

// The bytes of some cells, one after another.
nb::bytes records(const Cells& cells, const In<int64_t>& numbers) {
  check_cells(cells, numbers, true);
  size_t total = 0;
  for (size_t i = 0; i < numbers.size(); ++i)
    total += static_cast<size_t>(onkel::size_of(cells.at(numbers.data()[i])));
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(total));
  if (!made) throw nb::python_error();
  char* to = PyBytes_AsString(made);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Byte* cell = cells.at(numbers.data()[i]);
    std::memcpy(to, cell, static_cast<size_t>(onkel::size_of(cell)));
    to += onkel::size_of(cell);
  }
  return nb::steal<nb::bytes>(made);
}

// Bytes of each cell, 0 of one that has learned nothing.
void sizes(const Cells& cells, const In<int64_t>& numbers, const Out<int64_t>& out) {
  check_cells(cells, numbers, false);
  require(out.size() == numbers.size(), "one number per cell");
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Byte* cell = cells.at(numbers.data()[i]);
    out.data()[i] = cell ? onkel::size_of(cell) : 0;
  }
}

// Lets cells be what records hold: lengths of each, and all bytes. All of them are looked at before
// any is taken; returns the first that is not sound, or -1.
template <class C>
int64_t restore(C& own, const In<int64_t>& numbers, const In<int64_t>& lengths,
                const In<uint8_t>& data) {
  check_cells(own.cells, numbers, false);
  require(lengths.size() == numbers.size(), "one length per cell");
  std::vector<Byte*> found;
  const auto give_up = [&found](int64_t at) {
    for (Byte* cell : found) onkel::free_cell(cell);
    return at;
  };
  const uint8_t* from = data.data();
  size_t left = data.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t size = lengths.data()[i];
    int64_t told = 0;
    if (size < 128 || size % 8 || static_cast<size_t>(size) > left) return give_up(whole(i));
    std::memcpy(&told, from, sizeof told);
    if (told != size) return give_up(whole(i));
    found.push_back(onkel::new_cell(size));
    std::memcpy(found.back(), from, static_cast<size_t>(size));
    if (!own.sound(found.back())) return give_up(whole(i));
    from += size;
    left -= static_cast<size_t>(size);
  }
  for (size_t i = 0; i < numbers.size(); ++i) own.cells.put(numbers.data()[i], found[i]);
  return -1;
}

void forget(Cells& cells, const In<int64_t>& numbers) {
  check_cells(cells, numbers, false);
  for (size_t i = 0; i < numbers.size(); ++i) cells.put(numbers.data()[i], nullptr);
}

// What cells of any kind offer.
template <class C, class Bound>
void bind_common(Bound& bound) {
  bound.def("__len__", [](const C& own) { return own.cells.count(); })
      .def(
          "make_room", [](C& own, int64_t count) { own.cells.make_room(count); }, "count"_a)
      .def_prop_ro("nbytes", [](const C& own) { return own.cells.bytes(); })
      .def(
          "has",
          [](const C& own, int64_t number) {
            return number >= 0 && number < own.cells.count() && own.cells.at(number) != nullptr;
          },
          "number"_a)
      .def(
          "record",
          [](const C& own, int64_t number) {
            require(number >= 0 && number < own.cells.count() && own.cells.at(number),
                    "there is no such cell");
            return bytes_of(own.cells.at(number));
          },
          "number"_a)
      .def(
          "records",
          [](const C& own, const In<int64_t>& numbers) { return records(own.cells, numbers); },
          "numbers"_a)
      .def(
          "sizes",
          [](const C& own, const In<int64_t>& numbers, const Out<int64_t>& out) {
            sizes(own.cells, numbers, out);
          },
          "numbers"_a, written("out"))
      .def("restore", &restore<C>, "numbers"_a, "lengths"_a, "data"_a)
      .def(
          "forget", [](C& own, const In<int64_t>& numbers) { forget(own.cells, numbers); },
          "numbers"_a);
}

// -- detectors of densities

// Judges rows, and learns them where there are weights; `out` is [rows][6], `usual` [rows][2][d] or
// empty.
void density_learn(DensityCells& own, const In<int64_t>& numbers, const In<double>& x,
                   const In<double>& weight, bool ranked, const Out<double>& out,
                   const Out<double>& usual, int threads) {
  const int64_t rows = whole(numbers.size());
  check_cells(own.cells, numbers, weight.size() == 0);
  require(x.ndim() == 2 && whole(x.shape(0)) == rows && whole(x.shape(1)) == own.d,
          "the rows do not fit the cells");
  require((weight.size() == 0 || has(weight, rows)) && has(out, 6 * rows) &&
              (usual.size() == 0 || has(usual, 2 * own.d * rows)),
          "one weight per row, or none; six numbers per row");
  nb::gil_scoped_release release;
  const Groups groups(numbers.data(), rows);
  struct Room {
    std::vector<double> x, weight, out, usual;
  };
  onkel::over_groups<Room>(
      own.cells, numbers.data(), groups, threads, [] { return Room{}; },
      [&](Room& room, int64_t g) {
        const int64_t *at = groups.rows(g), n = groups.size(g), d = own.d;
        room.x.resize(static_cast<size_t>(n * d)), room.out.resize(static_cast<size_t>(6 * n));
        room.weight.resize(static_cast<size_t>(n));
        room.usual.resize(static_cast<size_t>(usual.size() ? 2 * d * n : 0));
        for (int64_t i = 0; i < n; ++i) {
          std::copy_n(x.data() + at[i] * d, d, room.x.data() + i * d);
          if (weight.size()) room.weight[static_cast<size_t>(i)] = weight.data()[at[i]];
        }
        own.learn(numbers.data()[at[0]], room.x.data(),
                  weight.size() ? room.weight.data() : nullptr, n, ranked, room.out.data(),
                  usual.size() ? room.usual.data() : nullptr);
        for (int64_t i = 0; i < n; ++i) {
          std::copy_n(room.out.data() + 6 * i, 6, out.data() + 6 * at[i]);
          if (usual.size())
            std::copy_n(room.usual.data() + 2 * d * i, 2 * d, usual.data() + 2 * d * at[i]);
        }
      });
}

// Of each cell: rows learned, terms, alerts, rows judged.
void density_counts(const DensityCells& own, const In<int64_t>& numbers, const Out<double>& out) {
  check_cells(own.cells, numbers, false);
  require(has(out, 4 * whole(numbers.size())), "four numbers per cell");
  for (size_t i = 0; i < numbers.size(); ++i) {
    Byte* cell = own.cells.at(numbers.data()[i]);
    double* to = out.data() + 4 * i;
    std::fill_n(to, 4, 0.0);
    if (!cell) continue;
    const int64_t* n = onkel::DensityCell::of(cell, own.d).s.whole;
    to[0] = static_cast<double>(n[onkel::kCountT]);
    to[1] = static_cast<double>(n[onkel::kCountSize] + n[onkel::kCountLateSize]);
    to[2] = static_cast<double>(n[onkel::kCountAlerts]);
    to[3] = static_cast<double>(n[onkel::kCountJudged]);
  }
}

// -- models with terms

// Rows, and what goes with each; arrays that do not apply are empty.
template <class T>
TermCall<T> call_of(const TermCells<T>& own, const In<int64_t>& numbers, const In<T>& x,
                    const Out<double>& score, const Out<double>& limit, const Out<double>& more,
                    const Out<int32_t>& kinds) {
  const int64_t rows = whole(numbers.size());
  require(x.ndim() == 2 && whole(x.shape(0)) == rows && whole(x.shape(1)) == own.plan.d,
          "the rows do not fit the cells");
  require(score.ndim() == 2 && whole(score.shape(0)) == rows && limit.size() == score.size() &&
              has(more, own.task == TermCells<T>::kNovelty ? 3 * rows : 0) &&
              has(kinds, own.task == TermCells<T>::kClassification ? 2 * rows : 0),
          "there is no room for what is found");
  TermCall<T> call{};
  call.rows = rows;
  call.cells = numbers.data(), call.x = x.data();
  call.wide = rows ? whole(score.shape(1)) : 0;
  call.score = score.data(), call.limit = limit.data();
  call.more = more.data(), call.kinds = kinds.data();
  return call;
}

// Cells whose rows are left to others, and the labels that the outputs of classifiers belong to.
struct Found {
  std::vector<int64_t> left;
  std::vector<std::vector<int32_t>> kinds;
};

// Runs work(room, rows, n) for each cell.
template <class T, class Work>
Found over_cells(TermCells<T>& own, const TermCall<T>& call, int threads, Work work) {
  std::vector<int64_t> left;
  Kinds kinds;
  std::mutex lock;
  {
    nb::gil_scoped_release release;
    const Groups groups(call.cells, call.rows);
    using Room = typename TermCells<T>::Room;
    onkel::over_groups<Room>(
        own.cells, call.cells, groups, threads, [&] { return Room(own); },
        [&](Room& room, int64_t g) {
          if (work(room, groups.rows(g), groups.size(g), kinds)) return;
          const std::lock_guard<std::mutex> guard(lock);
          left.push_back(call.cells[groups.rows(g)[0]]);
        });
  }
  std::sort(left.begin(), left.end());
  return {left, kinds.all()};
}

template <class T>
Found term_learn(TermCells<T>& own, const In<int64_t>& numbers, const In<T>& x, const In<double>& y,
                 const In<int32_t>& labels, const In<double>& weight, const In<double>& eta,
                 const In<double>& lam, const In<double>& fade, const In<double>& time,
                 const In<int64_t>& oldest, bool flat, bool bound, bool ranked,
                 const Out<double>& score, const Out<double>& limit, const Out<double>& more,
                 const Out<int32_t>& kinds, const Out<double>& usual, int threads) {
  TermCall<T> call = call_of(own, numbers, x, score, limit, more, kinds);
  check_cells(own.cells, numbers, false);
  const int64_t rows = call.rows;
  require(has(weight, rows) && has(eta, rows) && has(lam, rows) && has(oldest, rows),
          "one weight, rate and age per row");
  require((fade.size() == 0 || has(fade, rows)) && fade.size() == time.size(),
          "one time and what is left of the past per row, or none");
  require(!bound || rows == 1, "a single row comes alone");
  if (own.task == TermCells<T>::kRegression) {
    require(y.ndim() == 2 && whole(y.shape(0)) == rows, "targets are [rows][outputs]");
    call.y = y.data(), call.outputs = whole(y.shape(1)), call.flat = flat;
    require(!rows || (call.outputs > 0 && call.wide >= call.outputs),
            "there is no room for the targets");
  }
  if (own.task == TermCells<T>::kClassification) {
    require(has(labels, rows), "one label per row");
    for (int64_t i = 0; i < rows; ++i)
      require(labels.data()[i] >= 0 && labels.data()[i] < whole(own.sides.size()), "unknown label");
    call.labels = labels.data();
  }
  require(own.task != TermCells<T>::kNovelty || call.wide == 1 || !rows, "one score per row");
  call.weight = weight.data(), call.eta = eta.data(), call.lam = lam.data();
  call.oldest = oldest.data();
  if (fade.size()) call.fade = fade.data(), call.time = time.data();
  call.bound = bound, call.ranked = ranked;
  require(usual.size() == 0 || has(usual, 2 * own.plan.d * rows), "means and variances per row");
  call.usual = usual.size() && own.plan.moments() ? usual.data() : nullptr;
  return over_cells(own, call, threads,
                    [&](auto& room, const int64_t* at, int64_t n, Kinds& found) {
                      return own.learn(call, at, n, found, room);
                    });
}

template <class T>
Found term_look(TermCells<T>& own, const In<int64_t>& numbers, const In<T>& x, bool bound,
                bool ranked, const Out<double>& score, const Out<double>& limit,
                const Out<double>& more, const Out<int32_t>& kinds, int threads) {
  TermCall<T> call = call_of(own, numbers, x, score, limit, more, kinds);
  check_cells(own.cells, numbers, true);
  require(call.wide >= own.widest(numbers.data(), call.rows), "there is no room for all outputs");
  require(!bound || call.rows == 1, "a single row comes alone");
  call.bound = bound, call.ranked = ranked;
  return over_cells(own, call, threads,
                    [&](auto& room, const int64_t* at, int64_t n, Kinds& found) {
                      return own.look(call, at, n, found, room);
                    });
}

// Learns one row; false if it is left to others, and nothing has changed.
template <class T>
bool term_learn_one(TermCells<T>& own, int64_t number, const In<T>& x, double y, int32_t label,
                    double eta, double lam, int64_t oldest, double fade, double time) {
  require(number >= 0 && number < own.cells.count() && has(x, own.plan.d), "no such cell, or row");
  const bool classes = own.task == TermCells<T>::kClassification;
  require(!classes || (label >= 0 && label < whole(own.sides.size())), "unknown label");
  const double weight = 1.0;
  const bool clocked = std::isfinite(own.plan.duration);
  TermCall<T> call{};
  call.rows = call.outputs = 1, call.flat = call.bound = true;
  call.cells = &number, call.x = x.data(), call.labels = classes ? &label : nullptr;
  call.y = own.task == TermCells<T>::kRegression ? &y : nullptr;
  call.weight = &weight, call.eta = &eta, call.lam = &lam, call.oldest = &oldest;
  if (clocked) call.fade = &fade, call.time = &time;
  call.wide = own.widest(&number, 1) + 1;
  std::vector<double> found(static_cast<size_t>(2 * call.wide + 3));
  int32_t kind[2];
  call.score = found.data(), call.limit = call.score + call.wide;
  call.more = call.limit + call.wide, call.kinds = kind;
  const int64_t row = 0;
  Kinds kinds;
  return own.learn(call, &row, 1, kinds, own.single());
}

// The trial that each row will be, and the seconds since the row before of its cell (where there is
// a clock; the first of all has 0).
template <class T>
void term_trials(const TermCells<T>& own, const In<int64_t>& numbers, const In<double>& time,
                 const Out<int64_t>& trials, const Out<double>& gaps) {
  check_cells(own.cells, numbers, false);
  const int64_t rows = whole(numbers.size());
  require(has(trials, rows) && (time.size() == 0 || (has(time, rows) && has(gaps, rows))),
          "one trial, time and gap per row");
  const Groups groups(numbers.data(), rows);
  for (int64_t g = 0; g < groups.count(); ++g) {
    const int64_t* at = groups.rows(g);
    const Byte* cell = own.cells.at(numbers.data()[at[0]]);
    const auto* head = reinterpret_cast<const onkel::TermHead*>(cell);
    double last = cell ? head->clock : NAN;
    for (int64_t i = 0; i < groups.size(g); ++i) {
      trials.data()[at[i]] = (cell ? head->t : 0) + 1 + i;
      if (!time.size()) continue;
      const double now = time.data()[at[i]];
      gaps.data()[at[i]] = std::isnan(last) ? 0.0 : now - last;
      last = now;
    }
  }
}

// Of each cell: rows learned, terms, alerts and their rows since the warm-up, mistakes.
template <class T>
void term_counts(const TermCells<T>& own, const In<int64_t>& numbers, const Out<double>& out) {
  check_cells(own.cells, numbers, false);
  require(has(out, 5 * whole(numbers.size())), "five numbers per cell");
  for (size_t i = 0; i < numbers.size(); ++i) own.counts(numbers.data()[i], out.data() + 5 * i);
}

// What all models of a fleet share (onkel/estimators/packed/terms.py).
void make_plan(onkel::TermPlan* to, int64_t d, int64_t cap, int64_t limit, bool adaptive,
               bool invariant, bool scale, bool gaps, bool targets, bool link, bool steady,
               double start, double memory, double horizon, double duration, double eps,
               double clip, int64_t recent, int64_t warmup) {
  require(d > 0 && cap > 0 && limit > 0 && recent > 0 && warmup >= 0 && horizon >= 1 &&
              memory >= 0 && duration > 0 && recent < (int64_t{1} << 31),
          "the plan is out of range");
  onkel::TermPlan plan{};
  plan.d = d, plan.cap = cap, plan.limit = limit, plan.adaptive = adaptive;
  plan.invariant = invariant, plan.scale = scale, plan.gaps = gaps, plan.targets = targets;
  plan.link = link, plan.steady = steady, plan.start = start, plan.memory = memory;
  plan.horizon = horizon, plan.duration = duration, plan.eps = eps, plan.clip = clip;
  plan.recent = recent, plan.warmup = warmup;
  new (to) onkel::TermPlan(plan);
}

template <class T>
void make_terms(TermCells<T>* to, int task, const Program& program, const Stepper& stepper,
                onkel::TermPlan plan) {
  require(task >= 0 && task <= 2, "the task is 0, 1 or 2");
  require(!stepper.needs_norm, "cells keep no norm");
  plan.loss = stepper.loss, plan.rule = stepper.rule, plan.intercept = stepper.intercept;
  new (to) TermCells<T>(plan, static_cast<typename TermCells<T>::Task>(task), program.nodes);
}

template <class T>
void bind_terms(nb::module_& m) {
  using C = TermCells<T>;
  auto bound = nb::class_<C>(m, named<T>("TermCells").c_str());
  bound.def("__init__", &make_terms<T>, "task"_a, "program"_a, "stepper"_a, "plan"_a);
  bind_common<C>(bound);
  bound
      .def("learn", &term_learn<T>, "numbers"_a, "x"_a, "y"_a, "labels"_a, "weight"_a, "eta"_a,
           "lam"_a, "fade"_a, "time"_a, "oldest"_a, "flat"_a, "bound"_a, "ranked"_a,
           written("score"), written("limit"), written("more"), written("kinds"), written("usual"),
           "threads"_a)
      .def("look", &term_look<T>, "numbers"_a, "x"_a, "bound"_a, "ranked"_a, written("score"),
           written("limit"), written("more"), written("kinds"), "threads"_a)
      .def("trials", &term_trials<T>, "numbers"_a, "time"_a, written("trials"), written("gaps"))
      .def("counts", &term_counts<T>, "numbers"_a, written("out"))
      .def(
          "widest",
          [](const C& own, const In<int64_t>& numbers) {
            check_cells(own.cells, numbers, false);
            return own.widest(numbers.data(), whole(numbers.size()));
          },
          "numbers"_a)
      .def(
          "keep",
          [](C& own, const In<int64_t>& numbers) {
            check_cells(own.cells, numbers, false);
            for (size_t i = 0; i < numbers.size(); ++i) own.keep(numbers.data()[i]);
          },
          "numbers"_a)
      .def("learn_one", &term_learn_one<T>, "number"_a, "x"_a, "y"_a, "label"_a, "eta"_a, "lam"_a,
           "oldest"_a, "fade"_a, "time"_a)
      .def(
          "t",
          [](const C& own, int64_t number) {
            require(number >= 0 && number < own.cells.count(), "there is no such cell");
            const Byte* cell = own.cells.at(number);
            return cell ? onkel::term_head(cell).t : 0;
          },
          "number"_a)
      .def(
          "clock",
          [](const C& own, int64_t number) {
            require(number >= 0 && number < own.cells.count(), "there is no such cell");
            const Byte* cell = own.cells.at(number);
            return cell ? onkel::term_head(cell).clock : NAN;
          },
          "number"_a)
      .def(
          "set_sides",
          [](C& own, const In<int32_t>& sides) {
            own.sides.assign(sides.data(), sides.data() + sides.size());
          },
          "sides"_a)
      .def("undo", &C::undo)
      .def("done", &C::done);
}

}  // namespace

void bind_cells(nb::module_& m) {
  auto densities = nb::class_<DensityCells>(m, "DensityCells");
  densities.def(
      "__init__",
      [](DensityCells* to, const onkel::DensityPlan& plan, int64_t d, int64_t recent, int64_t kept,
         double memory, double start, double high, bool judges, bool alone) {
        require(d > 0 && recent > 0 && recent < (int64_t{1} << 31), "no features, or no scores");
        require(kept >= 0 && kept < (int64_t{1} << 31) && memory > 0, "no room for alerts");
        new (to) DensityCells(plan, d, recent, {kept, memory, start, high, judges, alone});
      },
      "plan"_a, "d"_a, "recent"_a, "kept"_a, "memory"_a, "start"_a, "high"_a, "judges"_a,
      "alone"_a);
  bind_common<DensityCells>(densities);
  densities
      .def("learn", &density_learn, "numbers"_a, "x"_a, "weight"_a, "ranked"_a, written("out"),
           written("usual"), "threads"_a)
      .def("counts", &density_counts, "numbers"_a, written("out"));
  nb::class_<Found>(m, "CellsFound").def_ro("left", &Found::left).def_ro("kinds", &Found::kinds);
  nb::class_<onkel::TermPlan>(m, "TermPlan")
      .def("__init__", &make_plan, "d"_a, "cap"_a, "limit"_a, "adaptive"_a, "invariant"_a,
           "scale"_a, "gaps"_a, "targets"_a, "link"_a, "steady"_a, "start"_a, "memory"_a,
           "horizon"_a, "duration"_a, "eps"_a, "clip"_a, "recent"_a, "warmup"_a);
  bind_terms<float>(m);
  bind_terms<double>(m);
}
