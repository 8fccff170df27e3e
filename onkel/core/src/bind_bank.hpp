// The kernels of a bank, on the side of Python.
#pragma once
#include "bind.hpp"

namespace seam {

// Kernels, and the columns that each serves.
struct Programs {
  Programs(const std::vector<Program>& of, const std::vector<int64_t>& ends) : of(of), ends(ends) {
    require(!of.empty() && of.size() == ends.size(), "each kernel has its columns");
    require(std::is_sorted(ends.begin(), ends.end()) && ends.front() >= 0, "columns in order");
    for (const auto& program : this->of) list.push_back(program.view());
  }
  Programs(const Programs& other) : Programs(other.of, other.ends) {}  // its views are its own
  onkel::Programs view() const { return {list.data(), ends.data(), whole(list.size())}; }

  std::vector<Program> of;
  std::vector<int64_t> ends;
  std::vector<onkel::Program> list;
};

}  // namespace seam
