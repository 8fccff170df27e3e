// Products of matrices of doubles, by tiles that stay in registers.
#pragma once
#include "simd.hpp"

namespace {

constexpr int kTileRows = kBytes == 64 ? 8 : 4;
constexpr int kTileVectors = 3;
constexpr int64_t kTileDepth = 64;
constexpr int64_t kTileColumns = kTileVectors * Simd<double>::width;

// tile = sum over k < depth of a_k b_k', a_k being kTileRows numbers and b_k kTileColumns; they
// stand a_step and b_step apart.
inline void tile_product(int64_t depth, const double* a, int64_t a_step, const double* b,
                         int64_t b_step, VecD (&tile)[kTileRows][kTileVectors]) {
  constexpr int W = Simd<double>::width;
  VecD sum[kTileRows][kTileVectors] = {};
  for (int64_t k = 0; k < depth; ++k, a += a_step, b += b_step) {
    VecD right[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v) right[v] = load<VecD>(b + v * W);
    for (int r = 0; r < kTileRows; ++r)
      for (int v = 0; v < kTileVectors; ++v) sum[r][v] = sum[r][v] + a[r] * right[v];
  }
  for (int r = 0; r < kTileRows; ++r)
    for (int v = 0; v < kTileVectors; ++v) tile[r][v] = sum[r][v];
}

// out += sum of factor[i] times row i, of `count` rows.
inline void add_rows(const double* rows, int64_t step, int64_t count, const double* factor,
                     int64_t d, double* out) {
  constexpr int N = 4;
  int64_t i = 0;
  for (; i + N <= count; i += N, rows += N * step)
    for (int64_t j = 0; j < d; ++j)
      out[j] += (factor[i] * rows[j] + factor[i + 1] * rows[step + j]) +
                (factor[i + 2] * rows[2 * step + j] + factor[i + 3] * rows[3 * step + j]);
  for (; i < count; ++i, rows += step)
    for (int64_t j = 0; j < d; ++j) out[j] += factor[i] * rows[j];
}

// [rows][d] as [d][step], the places behind the rows 0.
inline void turn(const double* x, int64_t rows, int64_t d, double* out, int64_t step) {
  for (int64_t j = 0; j < d; ++j)
    for (int64_t i = 0; i < step; ++i) out[j * step + i] = i < rows ? x[i * d + j] : 0;
}

// Columns j ... of some rows of S [rows][d], packed.
inline void pack(const double* S, int64_t d, int64_t rows, int64_t j, double* panel) {
  const size_t columns = static_cast<size_t>(d - j < kTileColumns ? d - j : kTileColumns);
  for (int64_t k = 0; k < rows; ++k)
    std::memcpy(panel + k * kTileColumns, S + k * d + j, columns * sizeof(double));
}

// out[rows][wide] = X S for a matrix S [d][d], given X' [d][step], `step` being a whole number of
// tiles. S is read once, some rows at a time.
inline void times_matrix(const double* turned, int64_t step, int64_t rows, const double* S,
                         int64_t d, double* out, int64_t wide) {
  constexpr int W = Simd<double>::width;
  VecD tile[kTileRows][kTileVectors];
  alignas(kBytes) double panel[kTileDepth * kTileColumns] = {};
  std::memset(out, 0, static_cast<size_t>(rows * wide) * sizeof(double));
  for (int64_t k = 0; k < d; k += kTileDepth) {
    const int64_t depth = d - k < kTileDepth ? d - k : kTileDepth;
    for (int64_t at = 0; at < depth * d; at += 8) __builtin_prefetch(S + k * d + at, 0, 2);
    for (int64_t j = 0; j < d; j += kTileColumns) {
      pack(S + k * d, d, depth, j, panel);
      for (int64_t i = 0; i < rows; i += kTileRows) {
        tile_product(depth, turned + k * step + i, step, panel, kTileColumns, tile);
        for (int r = 0; r < kTileRows && i + r < rows; ++r)
          for (int v = 0; v < kTileVectors; ++v) {
            double* to = out + (i + r) * wide + j + v * W;
            store(to, load<VecD>(to) + tile[r][v]);
          }
      }
    }
  }
}

// Adds a tile to S from (i, j) on, where that is not below the diagonal, and leaves what has become
// of it also at (j, i).
inline void add_tile(const VecD (&tile)[kTileRows][kTileVectors], double* S, int64_t d, int64_t i,
                     int64_t j) {
  double sums[kTileRows][kTileColumns];
  std::memcpy(sums, tile, sizeof(sums));
  const int64_t rows = d - i < kTileRows ? d - i : kTileRows;
  const int64_t columns = d - j < kTileColumns ? d - j : kTileColumns;
  for (int64_t r = 0; r < rows; ++r) {
    double* row = S + (i + r) * d + j;
    for (int64_t v = i + r > j ? i + r - j : 0; v < columns; ++v) row[v] = sums[r][v] += row[v];
  }
  for (int64_t v = 0; v < columns; ++v)
    for (int64_t r = 0; r < rows && i + r < j + v; ++r) S[(j + v) * d + i + r] = sums[r][v];
}

// S += A'B for a symmetric S [d][d], where A and B are [rows][wide] and A'B is symmetric but for
// rounding: one half is computed, the other is the same to the last bit.
inline void add_products(const double* A, const double* B, int64_t wide, int64_t rows, double* S,
                         int64_t d) {
  VecD tile[kTileRows][kTileVectors];
  for (int64_t j = 0; j < d; j += kTileColumns)
    for (int64_t i = 0; i < d && i < j + kTileColumns; i += kTileRows) {
      tile_product(rows, A + i, wide, B + j, wide, tile);
      add_tile(tile, S, d, i, j);
    }
}

}  // namespace
