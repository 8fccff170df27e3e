// The forest for Python: checks what comes, takes the lock, opens and ends transactions.
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <mutex>
#include <shared_mutex>

#include "bind.hpp"
#include "forest.hpp"
#include "threads.hpp"

namespace {

using onkel::Key;
using onkel::Split;
using onkel::SplitCode;
using onkel::Tree;
using seam::require;
using seam::written;
using In = seam::In<double>;
using Out = seam::Out<double>;
using Ids = seam::In<int64_t>;

const onkel::TreeTable& table() { return onkel::current_table().trees; }

// A split as Python hands it over: kExpPoly, sigma, c; or kPoly, order, c and then the table, row
// by row.
Split make_split(int kind, double number, const std::vector<double>& values) {
  Split split;
  split.kind = seam::code_of<SplitCode>("split", kind, onkel::kSplitCodeNames);
  switch (split.kind) {
    case SplitCode::kExpPoly:
      require(values.size() >= 1 && values.size() <= 3, "an exponential split has 1 to 3 terms");
      require(std::isfinite(number) && number > 0, "sigma must be positive");
      split.sigma = number;
      split.rank = static_cast<int>(values.size());
      std::copy(values.begin(), values.end(), split.c);
      break;
    case SplitCode::kPoly: {
      require(number == 1 || number == 2 || number == 3, "a spline has order 1, 2 or 3");
      split.rank = static_cast<int>(number) + 1;
      const size_t rank = static_cast<size_t>(split.rank);
      require(values.size() == rank + 2 * rank * rank, "a spline's table has the wrong size");
      std::copy_n(values.begin(), rank, split.c);
      for (size_t k = 0; k < 2 * rank; ++k)
        std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(rank + k * rank), rank,
                    split.table[k]);
      break;
    }
  }
  return split;
}

std::vector<Split> weighted(std::vector<Split> splits, const In& weights) {
  require(!splits.empty() && weights.size() == splits.size(),
          "one split and weight per coordinate");
  for (size_t j = 0; j < splits.size(); ++j) {
    splits[j].weight = weights.data()[j];
    require(std::isfinite(splits[j].weight), "a weight must be finite");
  }
  return splits;
}

class Forest {
 public:
  Forest(const std::vector<Split>& splits, const In& weights, int64_t columns) : columns_(columns) {
    require(columns >= 1 && columns <= 1 << 20, "columns must be at least 1");
    for (const Split& split : weighted(splits, weights)) trees_.emplace_back(split, columns);
  }
  Forest(std::vector<Tree> trees, int64_t columns, int64_t count)
      : trees_(std::move(trees)), columns_(columns), count_(count) {}

  int64_t columns() const { return columns_; }
  int64_t count() const { return count_; }
  bool open() const { return open_; }
  size_t nbytes() const {
    size_t total = 0;
    for (const Tree& tree : trees_) total += tree.total_bytes();
    return total;
  }

  void insert(const In& X, const In& coef, const Ids& ids) {
    change([&] { check_points(X, coef, ids); },
           [&] {
             for_rows(X, ids, [&](Tree& tree, Key key, int64_t row) {
               tree.insert(key, coef.data() + row * columns_, table());
             });
             count_ += rows_of(X);
           });
  }
  void erase(const In& X, const Ids& ids) {
    change([&] { check_rows(X, ids.size()); },
           [&] {
             for_rows(X, ids, [&](Tree& tree, Key key, int64_t) { tree.erase(key, table()); });
             count_ -= rows_of(X);
           });
  }
  void add(const In& X, const Ids& ids, const In& delta) {
    change([&] { check_points(X, delta, ids); },
           [&] {
             for_rows(X, ids, [&](Tree& tree, Key key, int64_t row) {
               tree.add(key, delta.data() + row * columns_, table());
             });
           });
  }
  void clear() {
    change([] {},
           [&] {
             for (Tree& tree : trees_) tree.clear();
             count_ = 0;
           });
  }
  void build(const In& X, const In& coef, const Ids& ids,
             const std::vector<onkel::Layout>& layout) {
    change([&] { check_points(X, coef, ids); },
           [&] {
             for (size_t j = 0; j < trees_.size(); ++j)
               trees_[j].build(sorted(X, coef, ids, j), table(),
                               j < layout.size() ? layout[j] : onkel::Layout{});
             count_ = rows_of(X);
           });
  }
  void remix(const In& M) {
    change([&] { check_mix(M); },
           [&] {
             const int64_t wide = static_cast<int64_t>(M.shape(1));
             for (Tree& tree : trees_) tree.remix(M.data(), wide, table());
             columns_ = wide;
           });
  }

  void query(const In& X, const Out& out, int threads) const {
    nb::gil_scoped_release release;
    std::shared_lock lock(*mutex_);
    check_rows(X, X.ndim() == 2 ? X.shape(0) : 0);
    require(out.ndim() == 2 && out.shape(0) == X.shape(0) &&
                static_cast<int64_t>(out.shape(1)) == columns_,
            "out must be [rows][columns]");
    require(!broken_, "a call has failed in this transaction: roll it back");
    std::vector<onkel::TreeView> views;
    for (const Tree& tree : trees_) views.push_back(tree.view());
    share_rows(rows_of(X), threads, 16, [&](int64_t first, int64_t count) {
      table().query(views.data(), static_cast<int64_t>(views.size()), columns_,
                    X.data() + first * static_cast<int64_t>(views.size()), count,
                    out.data() + first * columns_);
    });
  }

  std::vector<onkel::Layout> layout() const {
    nb::gil_scoped_release release;
    std::shared_lock lock(*mutex_);
    std::vector<onkel::Layout> found;
    for (const Tree& tree : trees_) found.push_back(tree.layout());
    return found;
  }

  std::unique_ptr<Forest> copy() const {
    nb::gil_scoped_release release;
    std::shared_lock lock(*mutex_);
    require(!open_, "a forest is not copied in the middle of a transaction");
    std::vector<Tree> trees;
    for (const Tree& tree : trees_) trees.push_back(tree.copy());
    return std::make_unique<Forest>(std::move(trees), columns_, count_);
  }

  void begin() {
    nb::gil_scoped_release release;
    std::unique_lock lock(*mutex_);
    require(!open_, "a transaction is already open");
    start();
    open_ = true;
  }
  void commit() {
    nb::gil_scoped_release release;
    std::unique_lock lock(*mutex_);
    require(open_, "no transaction is open");
    require(!broken_, "a call has failed in this transaction: roll it back");
    for (Tree& tree : trees_) tree.commit();
    open_ = false;
  }
  void rollback() {
    nb::gil_scoped_release release;
    std::unique_lock lock(*mutex_);
    require(open_, "no transaction is open");
    undo();
    open_ = broken_ = false;
  }

 private:
  static int64_t rows_of(const In& X) { return static_cast<int64_t>(X.shape(0)); }

  void check_rows(const In& X, size_t rows) const {
    require(X.ndim() == 2 && X.shape(0) == rows && X.shape(1) == trees_.size(),
            "rows must be [n][coordinates], with one id each");
  }
  void check_points(const In& X, const In& coef, const Ids& ids) const {
    check_rows(X, ids.size());
    require(coef.ndim() == 2 && coef.shape(0) == X.shape(0) &&
                static_cast<int64_t>(coef.shape(1)) == columns_,
            "coefficients must be [n][columns]");
    const double* x = X.data();
    require(std::all_of(x, x + X.size(), [](double v) { return std::isfinite(v); }),
            "points must be finite");
  }

  void check_mix(const In& M) const {
    require(M.ndim() == 2 && static_cast<int64_t>(M.shape(0)) == columns_ && M.shape(1) >= 1,
            "a mixing matrix has one row per column");
  }

  void start() {
    ++stamp_;
    for (Tree& tree : trees_) tree.begin(stamp_);
    count_before_ = count_;
    columns_before_ = columns_;
  }
  void undo() noexcept {
    for (Tree& tree : trees_) tree.rollback();
    count_ = count_before_;
    columns_ = columns_before_;
  }

  // A call that is refused by its check changes nothing. One that fails later does not either: it
  // is a transaction of its own, or it breaks the open one, which can then only be rolled back.
  template <class Check, class Change>
  void change(Check check, Change apply) {
    nb::gil_scoped_release release;
    std::unique_lock lock(*mutex_);
    require(!broken_, "a call has failed in this transaction: roll it back");
    check();
    if (!open_) start();
    try {
      apply();
    } catch (...) {
      if (open_)
        broken_ = true;
      else
        undo();
      throw;
    }
    if (!open_)
      for (Tree& tree : trees_) tree.commit();
  }

  // Calls act(tree, key, row) for all rows and coordinates; the next few are fetched first.
  template <class Act>
  void for_rows(const In& X, const Ids& ids, Act act) {
    const onkel::Pairs pairs{rows_of(X), static_cast<int64_t>(trees_.size())};
    Place places[kAhead];
    for (int64_t start = 0; start < pairs.count(); start += kAhead) {
      const int64_t count = std::min(pairs.count() - start, kAhead);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = pairs.row(start + i), j = pairs.coordinate(start + i);
        Tree& tree = trees_[static_cast<size_t>(j)];
        const auto view = tree.view();
        places[i] = {&tree,
                     {X.data()[row * pairs.coordinates + j], ids.data()[row]},
                     row,
                     view.root,
                     view.height};
      }
      fetch(places, count);
      for (int64_t i = 0; i < count; ++i) act(*places[i].tree, places[i].key, places[i].row);
    }
  }

  static constexpr int64_t kAhead = 32;
  struct Place {
    Tree* tree;
    Key key;
    int64_t row;
    const onkel::TreeNode* node;
    int level;
  };
  // Level by level for all of them, so that the waits for memory overlap. A hint, no more.
  static void fetch(Place* places, int64_t count) {
    for (bool going = true; going;) {
      going = false;
      for (Place* p = places; p < places + count; ++p)
        if (p->level > 0) {
          p->node = p->tree->towards(p->node, p->level--, p->key);
          going = true;
        }
    }
  }

  std::vector<onkel::Point> sorted(const In& X, const In& coef, const Ids& ids, size_t j) const {
    std::vector<onkel::Point> points;
    points.reserve(X.shape(0));
    for (size_t i = 0; i < X.shape(0); ++i)
      points.push_back({{X.data()[i * trees_.size() + j], ids.data()[i]},
                        coef.data() + i * static_cast<size_t>(columns_)});
    std::sort(points.begin(), points.end());
    for (size_t i = 1; i < points.size(); ++i)
      require(points[i - 1] < points[i], "this id is already there");
    return points;
  }

  std::vector<Tree> trees_;
  int64_t columns_, count_ = 0, stamp_ = 0;
  int64_t count_before_ = 0, columns_before_ = 0;
  bool open_ = false, broken_ = false;
  std::unique_ptr<std::shared_mutex> mutex_ = std::make_unique<std::shared_mutex>();
};

void additive_matrix(const std::vector<Split>& given, const In& weights, const In& X, const In& Z,
                     const Out& out) {
  const auto splits = weighted(given, weights);
  require(
      X.ndim() == 2 && Z.ndim() == 2 && X.shape(1) == splits.size() && Z.shape(1) == splits.size(),
      "rows must have one number per coordinate");
  require(out.ndim() == 2 && out.shape(0) == X.shape(0) && out.shape(1) == Z.shape(0),
          "out must be [rows of X][rows of Z]");
  nb::gil_scoped_release release;
  table().matrix(splits.data(), static_cast<int64_t>(splits.size()), X.data(),
                 static_cast<int64_t>(X.shape(0)), Z.data(), static_cast<int64_t>(Z.shape(0)),
                 out.data());
}

}  // namespace

void bind_tree(nb::module_& m) {
  nb::class_<Split>(m, "Split")
      .def(
          "__init__",
          [](Split* at, int kind, double number, const std::vector<double>& values) {
            new (at) Split(make_split(kind, number, values));
          },
          "kind"_a, "number"_a, "values"_a);
  nb::class_<Forest>(m, "Forest")
      .def(nb::init<const std::vector<Split>&, const In&, int64_t>(), "splits"_a, "weights"_a,
           "columns"_a)
      .def_prop_ro("columns", &Forest::columns)
      .def_prop_ro("count", &Forest::count)
      .def_prop_ro("nbytes", &Forest::nbytes)
      .def_prop_ro("in_transaction", &Forest::open)
      .def("insert", &Forest::insert, "X"_a, "coef"_a, "ids"_a)
      .def("erase", &Forest::erase, "X"_a, "ids"_a)
      .def("add", &Forest::add, "X"_a, "ids"_a, "delta"_a)
      .def("query", &Forest::query, "X"_a, written("out"), "threads"_a = 1)
      .def("remix", &Forest::remix, "M"_a)
      .def("clear", &Forest::clear)
      .def("build", &Forest::build, "X"_a, "coef"_a, "ids"_a,
           "layout"_a = std::vector<onkel::Layout>{})
      .def("layout", &Forest::layout)
      .def("copy", &Forest::copy)
      .def("begin", &Forest::begin)
      .def("commit", &Forest::commit)
      .def("rollback", &Forest::rollback);
  m.def("additive_matrix", &additive_matrix, "splits"_a, "weights"_a, "X"_a, "Z"_a, written("out"));
}
