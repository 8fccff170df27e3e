// Kernel operations: one formula each, whatever it is computed on. A program runs over a tile of
// values (rows.hpp), over a single value, or fused with the sums (row_tile.hpp); all come here.
#pragma once
#include <cmath>
#include <type_traits>

#include "api.hpp"
#include "simd.hpp"

namespace {

using onkel::Node;
using onkel::Op;
using onkel::Program;
using onkel::Reads;

// What the formulas rest on, for vectors and for single numbers.
inline VecF exponential(VecF x) { return vexp(x); }
inline VecD exponential(VecD x) { return vexp(x); }
inline double exponential(double x) { return std::exp(x); }

template <class V>
inline V whole_power(V base, int n) {
  V result = broadcast<V>(std::decay_t<decltype(base[0])>(1));
  for (; n > 0; n >>= 1, base = base * base)
    if (n & 1) result = result * base;
  return result;
}
inline double whole_power(double base, int n) { return std::pow(base, n); }

// An operation as a type, so that whoever is handed its formula knows its row of the table.
template <Op op>
struct Code {
  static constexpr onkel::Operation row = onkel::operation_of(op);
  static constexpr Op value = op;
};

// Calls use(Code<op>, formula) for one operation: a function of what it reads (rooted operations:
// of s = a |x - z|), or of the values that it takes from the stack. T: the type of its numbers.
template <class T, class Use>
inline void with_formula(const Node& node, Use use) {
  const T a = T(node.a), b = T(node.b);
  const int c = node.c;
  switch (node.op) {
    case Op::kGaussian:
      return use(Code<Op::kGaussian>(), [a](auto dist2) { return exponential(-a * dist2); });
    case Op::kLaplacian:
      return use(Code<Op::kLaplacian>(), [a](auto dist1) { return exponential(-a * dist1); });
    case Op::kMatern32:
      return use(Code<Op::kMatern32>(), [](auto s) { return (s + T(1)) * exponential(-s); });
    case Op::kMatern52:
      return use(Code<Op::kMatern52>(),
                 [](auto s) { return (s * s * T(1.0 / 3.0) + s + T(1)) * exponential(-s); });
    case Op::kLinear:
      return use(Code<Op::kLinear>(), [](auto dot) { return dot; });
    case Op::kPolynomial:
      return use(Code<Op::kPolynomial>(),
                 [a, b, c](auto dot) { return whole_power(dot * a + b, c); });
    case Op::kSum:
      return use(Code<Op::kSum>(), [](auto left, auto right) { return left + right; });
    case Op::kProduct:
      return use(Code<Op::kProduct>(), [](auto left, auto right) { return left * right; });
    case Op::kScale:
      return use(Code<Op::kScale>(), [a](auto top) { return a * top; });
  }
  onkel::refuse("kernel operation", static_cast<int>(node.op));
}

// Which pair statistics a program reads.
struct Needs {
  bool dot = false, dist2 = false, dist1 = false;
};

inline Needs needs_of(Program program) {
  Needs n;
  for (int i = 0; i < program.size; ++i) {
    const Reads reads = onkel::operation_of(program.nodes[i].op).reads;
    n.dot |= reads == Reads::kDot;
    n.dist2 |= reads == Reads::kDist2;
    n.dist1 |= reads == Reads::kDist1;
  }
  return n;
}

// What an operation reads, of three that are at hand.
template <Reads reads, class V>
inline V picked(V dot, V dist2, V dist1) {
  static_assert(reads != Reads::kNothing, "an operation without arguments must read something");
  return reads == Reads::kDot ? dot : reads == Reads::kDist2 ? dist2 : dist1;
}

// One value of a kernel, in double precision.
inline double evaluate_one(Program program, double dot, double dist2, double dist1) {
  double stack[onkel::kMaxDepth] = {};
  int top = -1;
  for (int i = 0; i < program.size; ++i)
    with_formula<double>(program.nodes[i], [&](auto op, auto formula) {
      if constexpr (op.row.pops == 2) {
        --top;
        stack[top] = formula(stack[top], stack[top + 1]);
      } else if constexpr (op.row.pops == 1) {
        stack[top] = formula(stack[top]);
      } else {
        const double x = picked<op.row.reads>(dot, dist2, dist1);
        stack[++top] = formula(op.row.rooted ? program.nodes[i].a * std::sqrt(x) : x);
      }
    });
  return stack[0];
}

}  // namespace
