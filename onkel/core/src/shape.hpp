// A node as a row of slots: finding the slot of a key, and moving slots about.
#pragma once
#include <algorithm>
#include <cstring>
#include <limits>

#include "tree_api.hpp"

namespace onkel {

struct Key {
  double x;
  int64_t id;
};

// How many of the first n keys come before (x, id), or are it: `or_equal`.
template <int N>
inline int64_t keys_before(const double* x, const int64_t* id, int64_t n, Key key, bool or_equal) {
  int64_t below = 0, upto = 0;
  for (int64_t i = 0; i < N; ++i) {
    below += (i < n) & (x[i] < key.x);
    upto += (i < n) & (x[i] <= key.x);
  }
  const int64_t* found = or_equal ? std::upper_bound(id + below, id + upto, key.id)
                                  : std::lower_bound(id + below, id + upto, key.id);
  return found - id;
}

inline int64_t child_for(const TreeNode* branch, Key key) {
  const int64_t upto =
      keys_before<kFan>(array_of(branch, kFan, kLo), branch_ids(branch), branch->n, key, true);
  return std::max<int64_t>(upto - 1, 0);
}

// The parallel arrays of a node, moved about without regard to what they hold.
struct Shape {
  int64_t length, arrays, infinite;  // of the arrays, the first so many are padded with infinity

  int64_t bytes() const { return 64 + 8 * length * arrays; }
  double pad(int64_t a) const { return a < infinite ? std::numeric_limits<double>::infinity() : 0; }
  void clear(TreeNode* node) const {
    node->n = 0;
    for (int64_t a = 0; a < arrays; ++a) std::fill_n(array_of(node, length, a), length, pad(a));
  }
  void open(TreeNode* node, int64_t at) const {
    for (int64_t a = 0; a < arrays; ++a) {
      double* v = array_of(node, length, a);
      std::memmove(v + at + 1, v + at, static_cast<size_t>(node->n - at) * 8);
    }
    ++node->n;
  }
  void close(TreeNode* node, int64_t at) const {
    --node->n;
    for (int64_t a = 0; a < arrays; ++a) {
      double* v = array_of(node, length, a);
      std::memmove(v + at, v + at + 1, static_cast<size_t>(node->n - at) * 8);
      v[node->n] = pad(a);
    }
  }
  // Moves the last `count` slots of `left` to the front of `right`.
  void to_right(TreeNode* left, TreeNode* right, int64_t count) const {
    for (int64_t a = 0; a < arrays; ++a) {
      double *from = array_of(left, length, a), *to = array_of(right, length, a);
      std::memmove(to + count, to, static_cast<size_t>(right->n) * 8);
      std::memcpy(to, from + left->n - count, static_cast<size_t>(count) * 8);
      std::fill_n(from + left->n - count, count, pad(a));
    }
    left->n -= count;
    right->n += count;
  }
  // Moves the first `count` slots of `right` to the end of `left`.
  void to_left(TreeNode* left, TreeNode* right, int64_t count) const {
    const int64_t rest = right->n - count;
    for (int64_t a = 0; a < arrays; ++a) {
      double *to = array_of(left, length, a), *from = array_of(right, length, a);
      std::memcpy(to + left->n, from, static_cast<size_t>(count) * 8);
      std::memmove(from, from + count, static_cast<size_t>(rest) * 8);
      std::fill_n(from + rest, count, pad(a));
    }
    left->n += count;
    right->n = rest;
  }
};

// A point on its way into a tree that is built anew.
struct Point {
  Key key;
  const double* coef;
  bool operator<(const Point& o) const {
    return key.x < o.key.x || (key.x == o.key.x && key.id < o.key.id);
  }
};

}  // namespace onkel
