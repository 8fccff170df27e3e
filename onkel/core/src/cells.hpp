// Many small models in one process: a cell is one model's bytes, and knows nothing of the others.
// What a cell holds in memory is what a file holds of it, byte for byte. A call's rows are laid out
// cell by cell, and cells are shared among threads; none of them sees another.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "cell_memory.hpp"
#include "threads.hpp"

namespace onkel {

// Memory of one cell, which begins with its size.
inline int64_t size_of(const Byte* cell) {
  int64_t size;
  std::memcpy(&size, cell, sizeof size);
  return size;
}

inline Byte* new_cell(int64_t size) {
  Byte* cell = cell_memory().take(size);
  std::memcpy(cell, &size, sizeof size);
  return cell;
}

inline void free_cell(Byte* cell) {
  if (cell) cell_memory().give(cell, size_of(cell));
}

// Cells by number. One that has learned nothing has no bytes.
class Cells {
 public:
  Cells() = default;
  Cells(const Cells&) = delete;
  ~Cells() {
    for (Byte* cell : at_) free_cell(cell);
  }

  int64_t count() const { return static_cast<int64_t>(at_.size()); }
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  Byte* at(int64_t number) const { return at_[static_cast<size_t>(number)]; }

  void make_room(int64_t count) {
    if (count > this->count()) at_.resize(static_cast<size_t>(count), nullptr);
  }

  // Lets a cell be other bytes (null: none); the old ones are freed.
  void put(int64_t number, Byte* cell) {
    Byte*& place = at_[static_cast<size_t>(number)];
    bytes_.fetch_add((cell ? size_of(cell) : 0) - (place ? size_of(place) : 0),
                     std::memory_order_relaxed);
    free_cell(place);
    place = cell;
  }

  // Brings a cell nearer that is needed soon: first its beginning, then the rest.
  void foresee(int64_t number) const { __builtin_prefetch(at(number)); }
  void bring(int64_t number) const {
    const Byte* cell = at(number);
    if (!cell) return;
    const int64_t size = std::min<int64_t>(size_of(cell), 4096);
    for (int64_t i = 64; i < size; i += 64) __builtin_prefetch(cell + i);
  }

 private:
  std::vector<Byte*> at_;
  std::atomic<int64_t> bytes_{0};
};

// The rows of a call by cell: those of group g are order[edges[g]] ... in the order they came in.
struct Groups {
  Groups(const int64_t* cells, int64_t rows) : order(static_cast<size_t>(rows)) {
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [cells](int64_t a, int64_t b) { return cells[a] < cells[b]; });
    for (int64_t i = 0; i < rows; ++i)
      if (i == 0 ||
          cells[order[static_cast<size_t>(i)]] != cells[order[static_cast<size_t>(i - 1)]])
        edges.push_back(i);
    edges.push_back(rows);
  }
  int64_t count() const { return static_cast<int64_t>(edges.size()) - 1; }
  const int64_t* rows(int64_t g) const { return order.data() + edges[static_cast<size_t>(g)]; }
  int64_t size(int64_t g) const {
    return edges[static_cast<size_t>(g + 1)] - edges[static_cast<size_t>(g)];
  }

  std::vector<int64_t> order, edges;
};

// Calls work(memory, g) for all groups, each thread with a memory of its own.
template <class Memory, class Make, class Work>
inline void over_groups(const Cells& cells, const int64_t* numbers, const Groups& groups,
                        int threads, Make make, Work work) {
  const auto number = [&](int64_t g) { return numbers[groups.rows(g)[0]]; };
  share_rows(groups.count(), threads, 1, [&](int64_t first, int64_t count) {
    Memory memory = make();
    const int64_t last = first + count;
    for (int64_t g = first; g < last; ++g) {
      if (g + 4 < last) cells.foresee(number(g + 4));
      if (g + 2 < last) cells.bring(number(g + 2));
      work(memory, g);
    }
  });
}

// The last scores of a cell, a ring of `most` places of which some are there, and how many are
// taken.
struct Recent {
  double* values;
  int64_t room, most;
  int32_t *at, *count;

  // Where a score stands among those remembered, itself counted.
  double rank(double score) const {
    int64_t below = 0;
    for (int64_t i = 0; i < *count; ++i) below += values[i] <= score;
    return (1.0 + static_cast<double>(below)) / (1.0 + static_cast<double>(*count));
  }

  void add(double score) const {
    values[*at] = score;
    *at = *at + 1 < most ? *at + 1 : 0;
    if (*count < most) ++*count;
  }

  // Places for so many more; some are kept in reserve.
  static int64_t room_for(int64_t room, int64_t count, int64_t more, int64_t most) {
    const int64_t wanted = std::min(count + more, most);
    return wanted <= room ? room : std::min(std::max((wanted + 7) / 8 * 8, room + room / 4), most);
  }
};

}  // namespace onkel
