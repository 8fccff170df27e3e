// Recursive least squares, one row after another. The readable form is
// onkel/core/numpy_least_squares.py. Rows of a block change P at its end, all at once.
#pragma once
#include <cmath>

#include "api.hpp"
#include "matrix_tile.hpp"
#include "simd.hpp"

namespace {

using onkel::Squares;

constexpr double kNoDoubt = 1e-290;

constexpr int64_t kAtOnce = 32;  // rows after which P is changed
constexpr int64_t kSingly = 4;   // rows that are not worth a block

// What a row comes to: how far the weights leave its score open, and what is forgotten and learned.
struct Doubt {
  double zeta, keep, grow, part;
};

// What of g is forgotten: nothing where a weight would become vaguer than it was at first.
inline double growth(const Squares& q, double keep, double zeta, const double* g,
                     const double* diagonal) {
  if (!(keep < 1 && zeta > kNoDoubt)) return 0;
  const double grow = (1 / keep - 1) / zeta;
  double most = 0;
  for (int64_t i = 0; i < q.d; ++i) {
    const double own = diagonal[i] + grow * g[i] * g[i];
    most = own > most ? own : most;
  }
  return most > q.most ? 0 : grow;
}

// Whether row t, and a step of its size, are well inside the floating range.
inline bool fits(const Squares& q, int64_t t, double zeta, const double* g) {
  double none = zeta * 0;  // 0, or no number
  for (int64_t i = 0; i < q.d; ++i) none += g[i] * 0;
  bool fine = none == 0;
  const double root = std::sqrt(zeta);
  for (int64_t c = 0; c < q.columns; ++c) {
    const double y = q.y[t * q.columns + c];
    const double size = std::fabs(q.score[t * q.columns + c]) + (std::isnan(y) ? 0 : std::fabs(y));
    fine &= size < onkel::kMostShown && (size < q.clip ? size : q.clip) * root <= q.longest;
  }
  return fine;
}

// What row t counts for: less than 1 where an error is beyond `clip` (Huber's loss).
inline double counting(const Squares& q, int64_t t) {
  double most = 0;
  for (int64_t at = t * q.columns; at < (t + 1) * q.columns; ++at) {
    const double size = std::fabs(q.y[at] - q.score[at]);
    if (size > most) most = size;  // an output that is not there yet has none
  }
  return most > q.clip ? q.clip / most : 1;
}

// Takes the error of one output into its weights, its noise, and what is reported.
inline void learn_output(const Squares& q, int64_t t, int64_t c, const Doubt& doubt,
                         const double* g) {
  const int64_t at = t * q.columns + c;
  if (std::isnan(q.y[at])) return;
  double* s = q.state + c * onkel::kFields;
  double* theta = q.theta + c * q.d;
  const double error = q.y[at] - q.score[at], step = doubt.part * error, size = std::fabs(error);
  const double near = size < q.clip ? size : q.clip;
  for (int64_t i = 0; i < q.d; ++i) theta[i] += step * g[i];
  s[onkel::kFieldTrials] += 1;
  s[onkel::kFieldWeight] += q.weight[t];
  s[onkel::kFieldUpdates] += q.weight[t] > 0 && error != 0;
  s[onkel::kFieldLoss] += q.weight[t] * near * (size - 0.5 * near);
  const double trials = s[onkel::kFieldTrials];
  double& noise = s[onkel::kFieldThreshold];
  noise += (error * error / (1 + doubt.zeta) - noise) / (trials < q.horizon ? trials : q.horizon);
}

// Leaves scores and standard deviations of row t, given g = P x; false if the row is bad.
inline bool look_at_row(const Squares& q, int64_t t, const double* g, double& zeta) {
  const double* x = q.x + t * q.d;
  zeta = dot(x, g, q.d);
  if (zeta < 0) zeta = 0;  // no number stays none, and is refused
  for (int64_t c = 0; c < q.columns; ++c) {
    const int64_t at = t * q.columns + c;
    const double noise = q.state[c * onkel::kFields + onkel::kFieldThreshold];
    q.score[at] = std::isnan(q.y[at]) ? 0 : dot(q.theta + c * q.d, x, q.d);
    q.limit[at] = std::sqrt((noise > 0 ? noise : 0) * (1 + zeta));
  }
  return fits(q, t, zeta, g);
}

// Learns row t, which was looked at; returns how much of g g' P loses.
inline double learn_row(const Squares& q, int64_t t, const double* g, const double* diagonal,
                        double zeta) {
  const double grow = growth(q, q.keep[t], zeta, g, diagonal), keep = grow == 0 ? 1 : q.keep[t];
  const double weight = q.weight[t] * counting(q, t);
  const Doubt doubt{zeta, keep, grow, weight / (keep * (1 + weight * (zeta / keep)))};
  for (int64_t c = 0; c < q.columns; ++c) learn_output(q, t, c, doubt, g);
  return doubt.part / keep - grow;
}

// What a block holds beside its task: of each row g = P x, as P was before that row.
struct SquaresBlock {
  const Squares& q;
  const int64_t wide;  // d, and room up to a whole number of tiles
  Memory<double> g, cuts, turned, diagonal;

  SquaresBlock(const Squares& task, int64_t rows)
      : q(task),
        wide((task.d + kTileColumns - 1) / kTileColumns * kTileColumns),
        g(rows * wide),
        cuts(rows * wide),
        turned(task.d * kAtOnce),
        diagonal(wide) {
    for (int64_t i = 0; i < q.d; ++i) diagonal.data[i] = q.cov[i * q.d + i];
  }

  // Learns row t, the i-th of its block, whose g is known; false if it is bad.
  bool learn(int64_t t, int64_t i) {
    double *own = g.data + i * wide, *off = cuts.data + i * wide, zeta = 0;
    if (!look_at_row(q, t, own, zeta)) return false;
    const double cut = learn_row(q, t, own, diagonal.data, zeta);
    for (int64_t j = 0; j < q.d; ++j) {
      off[j] = -cut * own[j];
      diagonal.data[j] += off[j] * own[j];
    }
    return true;
  }

  // P x of row t, the i-th of its block, from that of the block's beginning: what the rows before
  // it have taken off P is taken off.
  void catch_up(int64_t t, int64_t i) {
    double along[kAtOnce];
    for (int64_t k = 0; k < i; ++k) along[k] = dot(cuts.data + k * wide, q.x + t * q.d, q.d);
    add_rows(g.data, wide, i, along, q.d, g.data + i * wide);
  }

  // Learns up to kAtOnce rows from `first` on; returns how many came before a bad one.
  int64_t learn_block(int64_t first, int64_t rows) {
    turn(q.x + first * q.d, rows, q.d, turned.data, kAtOnce);
    times_matrix(turned.data, kAtOnce, rows, q.cov, q.d, g.data, wide);
    int64_t done = 0;
    for (; done < rows; ++done) {
      catch_up(first + done, done);
      if (!learn(first + done, done)) break;
    }
    add_products(cuts.data, g.data, wide, done, q.cov, q.d);
    return done;
  }
};

// P -= cut g g', and stays symmetric to the last bit: factors change places, nothing else.
inline void take_off(const Squares& q, double cut, double* g) {
  const double root = std::sqrt(std::fabs(cut)), sign = cut < 0 ? -1 : 1;
  for (int64_t i = 0; i < q.d; ++i) g[i] *= root;
  for (int64_t i = 0; i < q.d; ++i) {
    double* row = q.cov + i * q.d;
    const double own = sign * g[i];
    for (int64_t j = 0; j < q.d; ++j) row[j] -= own * g[j];
  }
}

// g = P x, the scores and standard deviations of row t; false if it is bad. P is symmetric, so its
// rows are its columns.
inline bool try_row(const Squares& q, int64_t t, double* g, double& zeta) {
  for (int64_t i = 0; i < q.d; ++i) g[i] = 0;
  add_rows(q.cov, q.d, q.d, q.x + t * q.d, q.d, g);
  return look_at_row(q, t, g, zeta);
}

// Learns row t, which was tried; `diagonal` is room for that of P.
inline void take_row(const Squares& q, int64_t t, double* g, double* diagonal, double zeta) {
  for (int64_t i = 0; i < q.d; ++i) diagonal[i] = q.cov[i * q.d + i];
  take_off(q, learn_row(q, t, g, diagonal, zeta), g);
}

// A step that keeps the weights inside the floating range whatever it is cut to.
inline bool stays(const Squares& q, const double* g) {
  double most = 0;
  for (int64_t c = 0; c < q.columns; ++c) {
    const double size = std::fabs(q.y[c]) + std::fabs(q.score[c]);
    const double step = (std::isnan(size) ? 0 : size) * q.weight[0] / q.keep[0];
    for (int64_t i = 0; i < q.d; ++i) {
      const double far = std::fabs(q.theta[c * q.d + i]) + step * std::fabs(g[i]);
      most = far > most ? far : most;
    }
  }
  return most < onkel::kLargest;
}

// A single row in two halves: what it comes to, of which nothing but score and limit is written
// (false if that is not for here); and learning it. `room` is [2][d].
bool try_squares(const Squares& q, double* room, double& zeta) {
  return try_row(q, 0, room, zeta) && stays(q, room);
}
void take_squares(const Squares& q, double* room, double zeta) {
  take_row(q, 0, room, room + q.d, zeta);
}

// Learns a few rows one by one; returns how many came before a bad one.
inline int64_t learn_few(const Squares& q) {
  Memory<double> room(2 * q.d);
  for (int64_t t = 0; t < q.rows; ++t) {
    double zeta = 0;
    if (!try_row(q, t, room.data, zeta)) return t;
    take_row(q, t, room.data, room.data + q.d, zeta);
  }
  return q.rows;
}

inline int64_t learn_blocks(const Squares& q) {
  SquaresBlock block(q, q.rows < kAtOnce ? q.rows : kAtOnce);
  for (int64_t t = 0; t < q.rows; t += kAtOnce) {
    const int64_t rows = q.rows - t < kAtOnce ? q.rows - t : kAtOnce;
    const int64_t done = block.learn_block(t, rows);
    if (done < rows) return t + done;
  }
  return q.rows;
}

void least_squares(Squares& q) {
  const int64_t done = q.rows <= kSingly ? learn_few(q) : learn_blocks(q);
  q.bad_row = done < q.rows ? done : -1;
}

}  // namespace
