// Rows in the coordinates of stored terms (onkel/core/frame.py), for Python.
#include "bind.hpp"

namespace {

using namespace seam;

template <class T>
int64_t rows_in(const Frame<T>& frame, const In<double>& v) {
  require(v.ndim() == 2 && whole(v.shape(1)) == frame.features(), "the rows do not fit the frame");
  return whole(v.shape(0));
}

// Stored rows made ready for kernel values.
template <class T>
void queries(const Frame<T>& frame, const In<double>& v, const Out<T>& q, const Out<T>& off,
             const Out<T>& norm) {
  const int64_t n = rows_in(frame, v), d = frame.features();
  require(has(q, n * d) && has(off, n) && has(norm, n), "a query has d + 2 numbers per row");
  const auto at = frame.view();
  for (int64_t i = 0; i < n; ++i) {
    off.data()[i] = at.query(v.data() + i * d, q.data() + i * d);
    norm.data()[i] = static_cast<T>(at.square(v.data() + i * d));
  }
}

template <class T>
void norms(const Frame<T>& frame, const In<T>& v, const Out<T>& out) {
  const int64_t n = whole(out.size()), d = frame.features();
  require(v.ndim() == 2 && has(v, n * d), "the rows do not fit the frame");
  const auto at = frame.view();
  for (int64_t i = 0; i < n; ++i) out.data()[i] = static_cast<T>(at.square(v.data() + i * d));
}

// Leaves where the centre should be in `center`; false if it is well where it is.
template <class T>
bool left_behind(const Frame<T>& frame, const In<double>& v, const In<double>& recent,
                 const Out<double>& center) {
  require(has(v, frame.features()) && has(center, frame.features()), "one number per feature");
  return frame.view().left_behind(v.data(), recent.data(), rows_in(frame, recent), center.data());
}

template <class T>
void bind_rows(nb::module_& m) {
  m.def("queries", &queries<T>, "frame"_a, "v"_a, written("q"), written("off"), written("norm"));
  m.def("norms", &norms<T>, "frame"_a, "v"_a, written("out"));
  m.def("left_behind", &left_behind<T>, "frame"_a, "v"_a, "recent"_a, written("center"));
}

}  // namespace

void bind_frame(nb::module_& m) {
  bind_rows<float>(m);
  bind_rows<double>(m);
}
