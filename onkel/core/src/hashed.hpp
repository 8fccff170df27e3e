// Weights of codes: one weight for each bucket of (column, code), a feature of value 1; of a value
// that is missing there is none (bucket -1). One row touches as many as it has codes. Shrinking
// moves an output's scale alone, and the sum of past weights is SCALE_SUM * weights + past, so that
// a row costs the same however large the table. The readable form is onkel/core/numpy_hashed.py.
#pragma once
#include <cmath>
#include <cstring>
#include <memory>

#include "api.hpp"
#include "simd.hpp"

namespace {

using onkel::Codes;

// What the codes of a row say to output c, by the weights of a table.
inline double gathered(const Codes& k, const double* table, int64_t c, const int32_t* at) {
  double sum = 0;
  for (int64_t j = 0; j < k.count; ++j)
    if (at[j] >= 0) sum += table[at[j] * k.columns + c];
  return sum;
}

// |x|^2 of the codes of a row: those that share a bucket add up. `seen` is a bit for each bucket.
inline double length2(const Codes& k, const int32_t* at, uint64_t* seen) {
  double sum = 0;
  for (int64_t j = 0; j < k.count; ++j) {
    if (at[j] < 0) continue;
    uint64_t& word = seen[at[j] >> 6];
    const uint64_t bit = uint64_t{1} << (at[j] & 63);
    if (word & bit)
      for (int64_t i = 0; i < j; ++i) sum += at[i] == at[j] ? 2 : 0;
    word |= bit;
    sum += 1;
  }
  for (int64_t j = 0; j < k.count; ++j)
    if (at[j] >= 0) seen[at[j] >> 6] = 0;
  return sum;
}

// Makes one output's numbers actual ones: scale 1, nothing in SCALE_SUM, the squares added anew.
inline void fold(const Codes& k, int64_t c, double* s) {
  const double scale = s[onkel::kFieldScale], sum = s[onkel::kFieldScaleSum];
  const int64_t end = k.buckets * k.columns;
  for (int64_t i = c; k.past && i < end; i += k.columns) k.past[i] += sum * k.weights[i];
  double squares = 0;
  for (int64_t i = c; i < end; i += k.columns) {
    k.weights[i] *= scale;
    squares += k.weights[i] * k.weights[i];
  }
  s[onkel::kFieldScale] = 1;
  s[onkel::kFieldScaleSum] = 0;
  k.marks[2 * c] = squares;
  k.marks[2 * c + 1] = 0;
}

// Whether the scale has gone far from 1 (past weights would cancel), or rounding may have gathered.
inline bool folds_now(const Codes& k, int64_t c, const double* s) {
  const double scale = std::fabs(s[onkel::kFieldScale]);
  return !(scale > onkel::kSmallScale && scale < 1 / onkel::kSmallScale) ||
         k.marks[2 * c + 1] >= static_cast<double>(k.every);
}

void fold_all(const Codes& k, double* state) {
  for (int64_t c = 0; c < k.columns; ++c)
    if (folds_now(k, c, state + c * onkel::kFields)) fold(k, c, state + c * onkel::kFields);
}

// What a call has overwritten in the tables, so that it is made whole or not at all.
class Undo {
 public:
  Undo(const Codes& codes, int64_t rows)
      : k_(codes),
        width_(codes.count * codes.columns),
        old_(rows * width_ * (codes.past ? 2 : 1)) {}

  // Before the steps of the next row.
  void note(const int32_t* at) {
    double* to = old_.data + noted_++ * width_ * (k_.past ? 2 : 1);
    keep(at, k_.weights, to);
    if (k_.past) keep(at, k_.past, to + width_);
  }

  // Before a table is folded: copies them all, as they were before the call.
  void copy() {
    if (copy_) return;
    copy_.reset(new Memory<double>(2 * whole()));
    std::memcpy(copy_->data, k_.weights, bytes());
    if (k_.past) std::memcpy(copy_->data + whole(), k_.past, bytes());
    play_back(copy_->data, copy_->data + whole());
  }

  void restore() {
    if (!copy_) return play_back(k_.weights, k_.past);
    std::memcpy(k_.weights, copy_->data, bytes());
    if (k_.past) std::memcpy(k_.past, copy_->data + whole(), bytes());
  }

 private:
  int64_t whole() const { return k_.buckets * k_.columns; }
  size_t bytes() const { return static_cast<size_t>(whole()) * sizeof(double); }
  size_t of_bucket() const { return static_cast<size_t>(k_.columns) * sizeof(double); }

  void keep(const int32_t* at, const double* table, double* to) const {
    for (int64_t j = 0; j < k_.count; ++j)
      for (int64_t c = 0; c < k_.columns && at[j] >= 0; ++c)
        to[j * k_.columns + c] = table[at[j] * k_.columns + c];
  }

  void play_back(double* weights, double* past) const {
    for (int64_t t = noted_ - 1; t >= 0; --t) {
      const double* from = old_.data + t * width_ * (k_.past ? 2 : 1);
      for (int64_t j = 0; j < k_.count; ++j) {
        const int64_t to = k_.at[t * k_.count + j] * k_.columns;
        if (to < 0) continue;
        std::memcpy(weights + to, from + j * k_.columns, of_bucket());
        if (k_.past) std::memcpy(past + to, from + width_ + j * k_.columns, of_bucket());
      }
    }
  }

  const Codes& k_;
  int64_t width_, noted_ = 0;
  Memory<double> old_;
  std::unique_ptr<Memory<double>> copy_;
};

// theta <- shrink theta + coef x for the codes of a row; false if that is beyond the floating
// range, or would fold what is only a part of a table.
inline bool move_codes(const Codes& k, int64_t c, const int32_t* at, double shrink, double coef,
                       double* s, Undo& undo) {
  double& scale = s[onkel::kFieldScale];
  scale *= shrink;
  if (!(std::fabs(scale) < onkel::kLargest)) return false;
  if (std::fabs(scale) < onkel::kSmallScale * onkel::kSmallScale) {
    if (!k.whole) return false;
    undo.copy();
    fold(k, c, s);
  }
  if (coef == 0) return true;
  const double step = coef / scale, sum = s[onkel::kFieldScaleSum];
  bool fine = true;
  for (int64_t j = 0; j < k.count; ++j) {
    if (at[j] < 0) continue;
    const int64_t i = at[j] * k.columns + c;
    const double old = k.weights[i];
    k.weights[i] = old + step;
    k.marks[2 * c] += step * (2 * old + step);
    if (k.past) k.past[i] -= sum * step;
    fine &= std::fabs(scale * k.weights[i]) < onkel::kLargest;
  }
  k.marks[2 * c + 1] += 1;
  return fine;
}

// out[t][c] += now[c] * (what the codes of row t say by the weights) + then[c] * (by the past).
void code_scores(const Codes& k, int64_t rows, const double* now, const double* then, double* out) {
  for (int64_t t = 0; t < rows; ++t) {
    const int32_t* at = k.at + t * k.count;
    for (int64_t c = 0; c < k.columns; ++c) {
      double sum = now[c] * gathered(k, k.weights, c, at);
      if (k.past) sum += then[c] * gathered(k, k.past, c, at);
      out[t * k.columns + c] += sum;
    }
  }
}

}  // namespace
