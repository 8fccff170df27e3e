// Balanced trees over sorted coordinates: insertion, deletion, transactions. Plain code; the sums
// are made by tree.hpp, through a TreeTable.
#pragma once
#include <optional>
#include <stdexcept>

#include "pool.hpp"
#include "shape.hpp"
#include "tree_api.hpp"

namespace onkel {

using Pieces = std::vector<int64_t>;
using Layout = std::vector<Pieces>;

class Tree {
 public:
  Tree(const Split& split, int64_t columns)
      : split_(split), columns_(columns), store_(shape(0), shape(1)) {
    reset();
  }

  TreeView view() const { return {split_, root_, height_}; }
  size_t total_bytes() const { return store_.leaves.total_bytes() + store_.branches.total_bytes(); }

  // Walks down towards many keys at once, so that their nodes are on the way from memory together.
  const TreeNode* towards(const TreeNode* node, int level, Key key) const {
    const TreeNode* next = children_of(node)[child_for(node, key)];
    prefetch(next, shape(level - 1).bytes());
    return next;
  }

  void insert(Key key, const double* coef, const TreeTable& table) {
    Path path = descend(key);
    TreeNode *leaf = path.node[0], *right = nullptr;
    const int64_t at = path.slot[0];
    if (at < leaf->n && leaf_ids(leaf)[at] == key.id && array_of(leaf, kLeaf, 0)[at] == key.x)
      throw std::invalid_argument("onkel core: this id is already there");
    touch(leaf, 0);
    if (leaf->n == kLeaf) right = split_node(leaf, 0);
    TreeNode* target = right && at > leaf->n ? right : leaf;
    put(target, target == leaf ? at : at - leaf->n, key, coef);
    rise(path, right, table);
  }

  void erase(Key key, const TreeTable& table) {
    Path path = find(key);
    touch(path.node[0], 0);
    shape(0).close(path.node[0], path.slot[0]);
    for (int level = 1; level <= height_; ++level) {
      touch(path.node[level], level);
      settle(path.node[level], path.slot[level], level, table);
    }
    while (height_ > 0 && root_->n == 1) {
      TreeNode* old = root_;
      root_ = children_of(root_)[0];
      release(old, height_--);
    }
  }

  void add(Key key, const double* delta, const TreeTable& table) {
    Path path = find(key);
    touch(path.node[0], 0);
    for (int64_t c = 0; c < columns_; ++c)
      array_of(path.node[0], kLeaf, kLeafCoef + c)[path.slot[0]] += delta[c];
    rise(path, nullptr, table);
  }

  void clear() {
    replace_store();
    reset();
  }

  // All points anew; they come sorted. A layout that fits them gives the very same nodes again.
  void build(const std::vector<Point>& points, const TreeTable& table, const Layout& layout = {}) {
    replace_store();
    reset();
    if (points.empty()) return;
    const bool fits = layout_fits(layout, points.size());
    const auto pieces = [&](size_t level, size_t total, size_t length) {
      return fits ? layout[level] : even_pieces(total, length);
    };
    std::vector<TreeNode*> row = build_leaves(points, pieces(0, points.size(), kLeaf));
    for (height_ = 0; row.size() > 1;) {
      const Pieces branches = pieces(static_cast<size_t>(++height_), row.size(), kFan);
      row = build_branches(row, height_, branches, table);
    }
    root_ = row[0];
  }

  // How many slots each node uses, by level from the leaves up, from left to right.
  Layout layout() const {
    Layout found(static_cast<size_t>(height_) + 1);
    note_sizes(root_, height_, found);
    return found;
  }

  // Every point's coefficients a become a M, M [columns][wide].
  void remix(const double* M, int64_t wide, const TreeTable& table) {
    std::vector<Point> points;
    std::vector<double> coef;
    collect(root_, height_, points, coef);
    std::vector<double> mixed(points.size() * static_cast<size_t>(wide));
    for (size_t i = 0; i < points.size(); ++i) {
      double* to = mixed.data() + i * static_cast<size_t>(wide);
      for (int64_t c = 0; c < columns_; ++c)
        for (int64_t w = 0; w < wide; ++w)
          to[w] +=
              coef[i * static_cast<size_t>(columns_) + static_cast<size_t>(c)] * M[c * wide + w];
      points[i].coef = to;
    }
    columns_ = wide;
    build(points, table);
  }

  Tree copy() const {
    Tree other(split_, columns_);
    other.release(other.root_, 0);
    other.root_ = other.clone(root_, height_);
    other.height_ = height_;
    return other;
  }

  // -- transactions ----------------------------------------------------------------------------

  void begin(int64_t stamp) {
    stamp_ = stamp;
    start_ = {root_, height_, columns_};
  }
  void commit() noexcept {
    for (const auto& [node, level] : removed_) store_.of(level).give(node);
    forget();
  }
  void rollback() noexcept {
    if (kept_) store_ = std::move(*kept_);  // the nodes made before that are in it too
    for (const auto& [node, level] : made_)
      if (node) store_.of(level).give(node);
    log_.restore();
    root_ = start_.root;
    height_ = start_.height;
    columns_ = start_.columns;
    forget();
  }

 private:
  static constexpr int kDeepest = 40;
  struct Path {
    TreeNode* node[kDeepest];  // by level
    int64_t slot[kDeepest];
  };
  struct Store {
    Store(Shape leaf, Shape branch) : leaves(leaf.bytes()), branches(branch.bytes()) {}
    Pool& of(int level) { return level ? branches : leaves; }
    Pool leaves, branches;
  };
  struct Start {
    TreeNode* root = nullptr;
    int height = 0;
    int64_t columns = 0;
  };

  Shape shape(int level) const {
    if (level == 0) return {kLeaf, kLeafCoef + columns_, 0};
    return {kFan, kMoment + 2 * split_.rank * columns_, 2};
  }

  // Nodes made in this transaction need no copy; after a rebuild all are.
  void touch(TreeNode* node, int level) {
    if (node->stamp == stamp_ || stamp_ == 0 || kept_) return;
    log_.save(node, static_cast<size_t>(shape(level).bytes()));
    node->stamp = stamp_;
  }
  TreeNode* make(int level) {
    const bool noted = stamp_ != 0 && !kept_;
    if (noted) made_.push_back({nullptr, level});  // first what can fail without a trace
    TreeNode* node = store_.of(level).take();
    if (noted) made_.back().first = node;
    node->stamp = stamp_;
    shape(level).clear(node);
    return node;
  }
  void release(TreeNode* node, int level) {
    if (stamp_ == 0 || kept_)
      store_.of(level).give(node);
    else
      removed_.push_back({node, level});
  }
  void forget() noexcept {
    kept_.reset();
    made_.clear();
    removed_.clear();
    log_.clear();
    stamp_ = 0;
  }
  void replace_store() {
    Store fresh(shape(0), shape(1));
    if (stamp_ != 0 && !kept_) {
      kept_.emplace(std::move(store_));
      removed_.clear();
    }
    store_ = std::move(fresh);
  }
  void reset() {
    root_ = make(0);
    height_ = 0;
  }

  Path descend(Key key) const {
    Path path;
    TreeNode* node = root_;
    for (int level = height_; level > 0; --level) {
      path.node[level] = node;
      path.slot[level] = child_for(node, key);
      node = children_of(node)[path.slot[level]];
    }
    path.node[0] = node;
    path.slot[0] =
        keys_before<kLeaf>(array_of(node, kLeaf, kLeafX), leaf_ids(node), node->n, key, false);
    return path;
  }
  Path find(Key key) const {
    Path path = descend(key);
    const TreeNode* leaf = path.node[0];
    const int64_t at = path.slot[0];
    if (at >= leaf->n || leaf_ids(leaf)[at] != key.id || array_of(leaf, kLeaf, kLeafX)[at] != key.x)
      throw std::invalid_argument("onkel core: no point with this value and id is there");
    return path;
  }

  void put(TreeNode* leaf, int64_t at, Key key, const double* coef) {
    shape(0).open(leaf, at);
    array_of(leaf, kLeaf, kLeafX)[at] = key.x;
    leaf_ids(leaf)[at] = key.id;
    for (int64_t c = 0; c < columns_; ++c) array_of(leaf, kLeaf, kLeafCoef + c)[at] = coef[c];
  }
  TreeNode* split_node(TreeNode* node, int level) {
    TreeNode* right = make(level);
    shape(level).to_right(node, right, node->n / 2);
    return right;
  }

  // After a change below: describes the changed children anew, up to the root, and makes room for
  // the right half of a child that was split.
  void rise(const Path& path, TreeNode* right, const TreeTable& table) {
    for (int level = 1; level <= height_; ++level) {
      TreeNode *branch = path.node[level], *extra = nullptr;
      const int64_t slot = path.slot[level];
      touch(branch, level);
      table.describe(split_, columns_, children_of(branch)[slot], level - 1, branch, slot);
      if (right) {
        if (branch->n == kFan) extra = split_node(branch, level);
        TreeNode* target = extra && slot + 1 > branch->n ? extra : branch;
        const int64_t at = target == branch ? slot + 1 : slot + 1 - branch->n;
        shape(level).open(target, at);
        table.describe(split_, columns_, right, level - 1, target, at);
      }
      right = extra;
    }
    if (right) grow_root(right, table);
  }
  void grow_root(TreeNode* right, const TreeTable& table) {
    if (height_ + 1 >= kDeepest) throw std::length_error("onkel core: the tree is too deep");
    TreeNode* top = make(1);
    top->n = 2;
    table.describe(split_, columns_, root_, height_, top, 0);
    table.describe(split_, columns_, right, height_, top, 1);
    root_ = top;
    ++height_;
  }

  // After a deletion below: an empty child goes, a sparse one shares with its neighbour.
  void settle(TreeNode* branch, int64_t slot, int level, const TreeTable& table) {
    TreeNode* child = children_of(branch)[slot];
    const Shape below = shape(level - 1);
    if (child->n == 0) {
      release(child, level - 1);
      shape(level).close(branch, slot);
    } else if (child->n < below.length / 4 && branch->n > 1) {
      share(branch, slot > 0 ? slot - 1 : slot, level, table);
    } else {
      table.describe(split_, columns_, child, level - 1, branch, slot);
    }
  }
  void share(TreeNode* branch, int64_t slot, int level, const TreeTable& table) {
    TreeNode *left = children_of(branch)[slot], *right = children_of(branch)[slot + 1];
    const Shape below = shape(level - 1);
    const int64_t both = left->n + right->n;
    touch(left, level - 1);
    touch(right, level - 1);
    if (both <= below.length * 3 / 4) {
      below.to_left(left, right, right->n);
      release(right, level - 1);
      shape(level).close(branch, slot + 1);
    } else {
      if (left->n < both / 2)
        below.to_left(left, right, both / 2 - left->n);
      else
        below.to_right(left, right, left->n - both / 2);
      table.describe(split_, columns_, right, level - 1, branch, slot + 1);
    }
    table.describe(split_, columns_, left, level - 1, branch, slot);
  }

  void note_sizes(const TreeNode* node, int level, Layout& found) const {
    found[static_cast<size_t>(level)].push_back(node->n);
    if (level > 0)
      for (int64_t i = 0; i < node->n; ++i) note_sizes(children_of(node)[i], level - 1, found);
  }
  static bool layout_fits(const Layout& layout, size_t points) {
    if (layout.empty() || layout.size() > kDeepest || layout.back().size() != 1) return false;
    size_t below = points;
    for (size_t level = 0; level < layout.size(); ++level) {
      const int64_t most = level ? kFan : kLeaf;
      size_t total = 0;
      for (const int64_t n : layout[level]) {
        if (n < 1 || n > most) return false;
        total += static_cast<size_t>(n);
      }
      if (total != below || (level > 0 && layout[level - 1].size() < 2)) return false;
      below = layout[level].size();
    }
    return true;
  }
  // Pieces of equal size, about three quarters full.
  static Pieces even_pieces(size_t total, size_t length) {
    const size_t full = length * 3 / 4, count = (total + full - 1) / full;
    Pieces pieces;
    for (size_t i = 0; i < count; ++i)
      pieces.push_back(static_cast<int64_t>(total * (i + 1) / count - total * i / count));
    return pieces;
  }
  // Calls make_one(first, count) for each piece.
  template <class Make>
  static std::vector<TreeNode*> in_pieces(const Pieces& pieces, Make make_one) {
    std::vector<TreeNode*> row;
    size_t first = 0;
    for (const int64_t count : pieces) {
      row.push_back(make_one(first, static_cast<size_t>(count)));
      first += static_cast<size_t>(count);
    }
    return row;
  }
  std::vector<TreeNode*> build_leaves(const std::vector<Point>& points, const Pieces& pieces) {
    return in_pieces(pieces, [&](size_t first, size_t count) {
      TreeNode* leaf = make(0);
      for (size_t i = 0; i < count; ++i)
        put(leaf, leaf->n, points[first + i].key, points[first + i].coef);
      return leaf;
    });
  }
  std::vector<TreeNode*> build_branches(const std::vector<TreeNode*>& below, int level,
                                        const Pieces& pieces, const TreeTable& table) {
    return in_pieces(pieces, [&](size_t first, size_t count) {
      TreeNode* branch = make(level);
      branch->n = static_cast<int64_t>(count);
      for (size_t i = 0; i < count; ++i)
        table.describe(split_, columns_, below[first + i], level - 1, branch,
                       static_cast<int64_t>(i));
      return branch;
    });
  }

  void collect(const TreeNode* node, int level, std::vector<Point>& points,
               std::vector<double>& coef) const {
    for (int64_t i = 0; i < node->n; ++i) {
      if (level > 0) {
        collect(children_of(node)[i], level - 1, points, coef);
        continue;
      }
      points.push_back({{array_of(node, kLeaf, kLeafX)[i], leaf_ids(node)[i]}, nullptr});
      for (int64_t c = 0; c < columns_; ++c)
        coef.push_back(array_of(node, kLeaf, kLeafCoef + c)[i]);
    }
  }
  TreeNode* clone(const TreeNode* node, int level) {
    TreeNode* twin = make(level);
    std::memcpy(twin, node, static_cast<size_t>(shape(level).bytes()));
    twin->stamp = 0;
    if (level > 0)
      for (int64_t i = 0; i < node->n; ++i)
        children_of(twin)[i] = clone(children_of(node)[i], level - 1);
    return twin;
  }

  Split split_;
  int64_t columns_;
  Store store_;
  TreeNode* root_ = nullptr;
  int height_ = 0;
  int64_t stamp_ = 0;  // of the open transaction; 0 if none
  Start start_;
  Log log_;
  std::vector<std::pair<TreeNode*, int>> made_, removed_;
  std::optional<Store> kept_;  // the nodes of before, where all were made anew
};

}  // namespace onkel
