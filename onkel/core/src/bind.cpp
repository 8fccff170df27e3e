// The module: chooses the instruction set, checks shapes, releases the GIL.
#include "bind.hpp"

#include <nanobind/stl/string.h>

#include "threads.hpp"

namespace onkel {
#ifdef ONKEL_X86_LEVELS
extern const Table table_v2, table_v3, table_v4;
#else
extern const Table table_plain;
#endif
}  // namespace onkel

namespace {

using namespace seam;
using onkel::Table;

std::vector<const Table*> available() {
  std::vector<const Table*> found;
#ifdef ONKEL_X86_LEVELS
  __builtin_cpu_init();
  found.push_back(&onkel::table_v2);
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  if (v3) found.push_back(&onkel::table_v3);
  if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd"))
    found.push_back(&onkel::table_v4);
#else
  found.push_back(&onkel::table_plain);
#endif
  return found;
}

const Table* current = available().back();

std::vector<std::string> levels() {
  std::vector<std::string> names;
  for (const Table* t : available()) names.emplace_back(t->name);
  return names;
}

void use_level(const std::string& name) {
  for (const Table* t : available())
    if (name == t->name) {
      current = t;
      return;
    }
  throw std::invalid_argument("this processor has no instruction set level '" + name + "'");
}

template <class T>
void sums(const Program& program, const Queries<T>& queries, const Panels<T>& panels,
          const Out<double>& out, int threads) {
  const int64_t columns = panels.columns();
  require(panels.features() == whole(queries.q.shape(1)), "queries and panels differ in features");
  require(
      out.ndim() == 2 && whole(out.shape(0)) == queries.rows() && whole(out.shape(1)) == columns,
      "out must be [rows][columns]");
  const T* coef = panels.coef.data();
  double* to = out.data();
  nb::gil_scoped_release release;
  share_rows(queries.rows(), threads, 8, [&](int64_t first, int64_t count) {
    const auto part = queries.part(first, count);
    if constexpr (sizeof(T) == 4)
      current->sums_f(program.view(), part, panels.view(), coef, columns, to + first * columns);
    else
      current->sums_d(program.view(), part, panels.view(), coef, columns, to + first * columns);
  });
}

template <class T>
void matrix(const Program& program, const Queries<T>& queries, const In<T>& rows,
            const In<T>& norms, const Out<double>& out) {
  const auto asked = queries.view();
  require(rows.ndim() == 2 && whole(rows.shape(1)) == asked.d && norms.size() == rows.shape(0),
          "rows and norms do not fit the queries");
  require(out.ndim() == 2 && whole(out.shape(0)) == asked.rows && out.shape(1) == rows.shape(0),
          "out must be [queries][rows]");
  const int64_t n = whole(rows.shape(0));
  nb::gil_scoped_release release;
  if (!n || !asked.rows) return;
  const Packed<T> packed(rows.data(), norms.data(), n, asked.d);
  if constexpr (sizeof(T) == 4)
    current->matrix_f(program.view(), asked, packed.panels(), n, out.data());
  else
    current->matrix_d(program.view(), asked, packed.panels(), n, out.data());
}

// k from pair statistics; an array that the program does not read may be empty.
void evaluate(const Program& program, const In<double>& dot, const In<double>& dist2,
              const In<double>& dist1, const Out<double>& out) {
  const auto read = [&](const char* name, const In<double>& array, onkel::Reads reads) {
    const bool needed = std::any_of(
        program.nodes.begin(), program.nodes.end(),
        [reads](const onkel::Node& node) { return onkel::operation_of(node.op).reads == reads; });
    if (array.size() != out.size() && (array.size() != 0 || needed))
      fail(std::string(name) + " must have one number per pair");
    return array.size() ? array.data() : nullptr;
  };
  const double* a = read("dot", dot, onkel::Reads::kDot);
  const double* b = read("dist2", dist2, onkel::Reads::kDist2);
  const double* c = read("dist1", dist1, onkel::Reads::kDist1);
  nb::gil_scoped_release release;
  current->evaluate(program.view(), a, b, c, whole(out.size()), out.data());
}

// Rows into running moments, each weighing 1/min(seen, horizon); fade = what becomes of `seen`
// before each row, or nothing.
void moments(const In<double>& rows, const In<double>& fade, Moments& into) {
  require(rows.ndim() == 2 && whole(rows.shape(1)) == into.columns(),
          "the moments need one number per column");
  require(fade.size() == 0 || fade.size() == rows.shape(0), "fade needs one number per row");
  nb::gil_scoped_release release;
  for (size_t i = 0; i < rows.shape(0); ++i)
    into.take(rows.data() + i * rows.shape(1), fade.size() ? fade.data()[i] : 1.0);
}

// Whether the first `count` values of each row are codes (onkel/core/frame.py).
template <class T>
bool has_codes(const In<T>& rows, int64_t count) {
  require(rows.ndim() == 2 && count >= 0 && count <= whole(rows.shape(1)),
          "more codes than columns");
  const int64_t d = whole(rows.shape(1)), n = whole(rows.shape(0));
  if constexpr (sizeof(T) == 4)
    return current->codes_f(rows.data(), n, d, count);
  else
    return current->codes_d(rows.data(), n, d, count);
}

template <class T>
void bind_rows(nb::module_& m) {
  m.def("has_codes", &has_codes<T>, "rows"_a, "count"_a);
  m.def("sums", &sums<T>, "program"_a, "queries"_a, "panels"_a, written("out"), "threads"_a);
  m.def("matrix", &matrix<T>, "program"_a, "queries"_a, "rows"_a, "norms"_a, written("out"));
}

}  // namespace

const onkel::Table& onkel::current_table() { return *current; }

void onkel::refuse(const char* what, int code) {
  throw std::invalid_argument(std::string("onkel core: ") + what + " " + std::to_string(code) +
                              " has no case here");
}

void bind_parts(nb::module_& m);        // in bind_parts.cpp
void bind_frame(nb::module_& m);        // in bind_frame.cpp
void bind_steps(nb::module_& m);        // in bind_steps.cpp
void bind_tree(nb::module_& m);         // in bind_tree.cpp
void bind_lane(nb::module_& m);         // in bind_lane.cpp
void bind_bank(nb::module_& m);         // in bind_bank.cpp
void bind_bank_lane(nb::module_& m);    // in bind_bank_lane.cpp
void bind_primal_rows(nb::module_& m);  // in bind_primal_rows.cpp
void bind_squares(nb::module_& m);      // in bind_squares.cpp
void bind_means(nb::module_& m);        // in bind_means.cpp
void bind_density(nb::module_& m);      // in bind_density.cpp
void bind_chances(nb::module_& m);      // in bind_chances.cpp
void bind_widths(nb::module_& m);       // in bind_widths.cpp
void bind_budgets(nb::module_& m);      // in bind_budgets.cpp
void bind_cells(nb::module_& m);        // in bind_cells.cpp
void bind_keys(nb::module_& m);         // in bind_keys.cpp

NB_MODULE(_native, m) {
  m.attr("FINGERPRINT") = onkel::kFingerprint;
  m.def("levels", &levels);
  m.def("level", [] { return std::string(current->name); });
  m.def("use_level", &use_level, "name"_a);
  bind_parts(m);
  bind_rows<float>(m);
  bind_rows<double>(m);
  m.def("evaluate", &evaluate, "program"_a, "dot"_a, "dist2"_a, "dist1"_a, written("out"));
  m.def("moments", &moments, "rows"_a, "fade"_a, "into"_a);
  bind_frame(m);
  bind_steps(m);
  bind_tree(m);
  bind_lane(m);
  bind_bank(m);
  bind_bank_lane(m);
  bind_primal_rows(m);
  bind_squares(m);
  bind_means(m);
  bind_density(m);
  bind_chances(m);
  bind_widths(m);
  bind_budgets(m);
  bind_cells(m);
  bind_keys(m);
}
