// The trees of an additive expansion: how nodes lie in memory. Shared by the plain code that
// moves nodes about (forest.hpp) and by the code per instruction set that sums them (tree.hpp).
#pragma once
#include <cstdint>

#include "algebra.hpp"

namespace onkel {

constexpr int kLeaf = 32;  // points in a leaf
constexpr int kFan = 16;   // children of a branch
constexpr int kMaxRank = 4;

// A one-dimensional kernel and how it splits. Mirrored by onkel/core/split.py.
//   kExpPoly: K = e^{-s} sum_k c_k s^k, s = sigma |p - q|, k < rank
//   kPoly:    K = sum_r c_r min^{2z-r+1} |p - q|^r + sum_r (p q)^r, r <= z = rank - 1,
//             which is sum_{k,j} table[k][j] p^k q^j for p <= q, k < 2 rank, j < rank
struct Split {
  SplitCode kind = SplitCode::kExpPoly;
  int rank = 1;
  double weight = 1, sigma = 1;
  double c[kMaxRank] = {};
  double table[2 * kMaxRank][kMaxRank] = {};
};

// A node is this head and then arrays of 8-byte numbers, kLeaf or kFan long:
//   leaf:    x, id, coef[columns], in order of (x, id)
//   branch:  lo, hi, id, child, moment[2 rank][columns]; lo and id are the child's first key, hi
//            its last x
// The moments of a child are sums over its points of, for kExpPoly and j < rank,
//   a u^j e^{-u}, u = sigma (hi - x), and in the second half u = sigma (x - lo);
// for kPoly a x^k, k < 2 rank. All that a branch says of a child is computed from the child's
// present content whenever that changes, so nothing drifts. What is unused holds 0, but infinity
// in lo and hi.
struct alignas(64) TreeNode {
  int64_t stamp;  // the transaction that has saved or made this node
  int64_t n;
};

// Static, all of them: compiled per instruction set too, they must not be shared by the linker.
static inline double* array_of(TreeNode* node, int64_t length, int64_t which) {
  return reinterpret_cast<double*>(node + 1) + which * length;
}
static inline const double* array_of(const TreeNode* node, int64_t length, int64_t which) {
  return reinterpret_cast<const double*>(node + 1) + which * length;
}

constexpr int kLeafX = 0, kLeafId = 1, kLeafCoef = 2;
constexpr int kLo = 0, kHi = 1, kId = 2, kChild = 3, kMoment = 4;

static inline const int64_t* leaf_ids(const TreeNode* leaf) {
  return reinterpret_cast<const int64_t*>(array_of(leaf, kLeaf, kLeafId));
}
static inline int64_t* leaf_ids(TreeNode* leaf) {
  return reinterpret_cast<int64_t*>(array_of(leaf, kLeaf, kLeafId));
}
static inline const int64_t* branch_ids(const TreeNode* branch) {
  return reinterpret_cast<const int64_t*>(array_of(branch, kFan, kId));
}
static inline int64_t* branch_ids(TreeNode* branch) {
  return reinterpret_cast<int64_t*>(array_of(branch, kFan, kId));
}
static inline TreeNode** children_of(TreeNode* branch) {
  return reinterpret_cast<TreeNode**>(array_of(branch, kFan, kChild));
}
static inline TreeNode* const* children_of(const TreeNode* branch) {
  return reinterpret_cast<TreeNode* const*>(array_of(branch, kFan, kChild));
}

static inline void prefetch(const TreeNode* node, int64_t bytes) {
  const char* start = reinterpret_cast<const char*>(node);
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(start + at);
}

namespace {  // for the same reason

// All pairs of rows and coordinates, in an order that suits the caches: of many rows, one tree
// after the other; of a few, row after row. Each row meets its coordinates in their order.
struct Pairs {
  int64_t rows, coordinates;
  bool tall() const { return rows >= 32; }
  int64_t count() const { return rows * coordinates; }
  int64_t row(int64_t i) const { return tall() ? i % rows : i / coordinates; }
  int64_t coordinate(int64_t i) const { return tall() ? i / rows : i % coordinates; }
};

}  // namespace

// One coordinate, as the sums see it. Level 0 is the leaves.
struct TreeView {
  Split split;
  const TreeNode* root;
  int height;
};

// What is compiled per instruction set.
struct TreeTable {
  // Describes `child`, which stands on `level`, in a slot of its parent.
  void (*describe)(const Split&, int64_t columns, TreeNode* child, int level, TreeNode* parent,
                   int64_t slot);
  // out[row][column] = sum over coordinates and points of weight a K(x_j, point).
  void (*query)(const TreeView*, int64_t coordinates, int64_t columns, const double* X,
                int64_t rows, double* out);
  // out[row][term] = K(x, z), directly.
  void (*matrix)(const Split*, int64_t coordinates, const double* X, int64_t rows, const double* Z,
                 int64_t terms, double* out);
};

}  // namespace onkel
