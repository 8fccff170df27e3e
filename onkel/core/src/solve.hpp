// A few linear equations with a positive definite matrix: H = L D L'.
#pragma once
#include <cstddef>

// No namespace with a name: it is compiled for several instruction sets too.
namespace {

// x <- H^-1 x; H is [n][n], of which the lower half is read; `room` takes n * (n + 2) numbers.
// False if H is not positive definite.
inline bool solve(const double* H, size_t n, double* x, double* room) {
  double *L = room, *inverse = room + n * n, *w = inverse + n;
  bool positive = true;
  for (size_t j = 0; j < n; ++j) {
    double d = H[j * n + j];
    for (size_t k = 0; k < j; ++k) {
      w[k] = L[j * n + k];
      L[j * n + k] *= inverse[k];
      d -= L[j * n + k] * w[k];
    }
    inverse[j] = 1 / d;
    positive &= d > 0;
    for (size_t i = j + 1; i < n; ++i) {  // what is divided by d when its row's turn comes
      double sum = H[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= L[i * n + k] * L[j * n + k];
      L[i * n + j] = sum;
    }
  }
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < i; ++k) x[i] -= L[i * n + k] * x[k];
  for (size_t i = 0; i < n; ++i) x[i] *= inverse[i];
  for (size_t i = n; i-- > 0;)
    for (size_t k = 0; k < i; ++k) x[k] -= L[i * n + k] * x[i];
  return positive;
}

}  // namespace
