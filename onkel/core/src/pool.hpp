// Memory for the nodes of one tree, and the log that can bring them back.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "tree_api.hpp"

namespace onkel {

// Nodes of one size, in slabs: they never move, and large slabs may lie on huge pages.
class Pool {
 public:
  explicit Pool(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {}

  TreeNode* take() {
    if (free_.empty()) grow();
    TreeNode* node = free_.back();
    free_.pop_back();
    return node;
  }
  void give(TreeNode* node) noexcept { free_.push_back(node); }  // room was reserved by grow
  size_t node_bytes() const { return bytes_; }
  size_t total_bytes() const { return nodes_ * bytes_; }

 private:
  struct Release {
    std::align_val_t align;
    void operator()(void* p) const { ::operator delete(p, align); }
  };
  static constexpr size_t kHuge = size_t{1} << 21;

  void grow() {
    const size_t most = kHuge / bytes_ + 1;
    const size_t count = std::min(std::max<size_t>(nodes_, 2), std::max<size_t>(most, 2));
    const size_t align = count * bytes_ >= kHuge ? kHuge : 64;
    const size_t size = (count * bytes_ + align - 1) / align * align;
    const size_t fit = size / bytes_;  // rounding up may have made room for more
    slabs_.reserve(slabs_.size() + 1);
    free_.reserve(nodes_ + fit);
    const Release release{std::align_val_t{align}};
    void* slab = ::operator new(size, release.align);
    slabs_.emplace_back(slab, release);
#ifdef MADV_HUGEPAGE
    if (align == kHuge) madvise(slab, size, MADV_HUGEPAGE);
#endif
    for (size_t i = fit; i-- > 0;)
      free_.push_back(new (static_cast<char*>(slab) + i * bytes_) TreeNode{});
    nodes_ += fit;
  }

  size_t bytes_, nodes_ = 0;
  std::vector<std::unique_ptr<void, Release>> slabs_;
  std::vector<TreeNode*> free_;
};

// Copies of nodes as they were before their first change in a transaction.
class Log {
 public:
  void save(TreeNode* node, size_t bytes) {
    const std::byte* start = reinterpret_cast<const std::byte*>(node);
    saved_.push_back({node, data_.size(), 0});  // restores nothing until the copy is there
    data_.insert(data_.end(), start, start + bytes);
    saved_.back().bytes = bytes;
  }
  void restore() noexcept {
    for (const Saved& s : saved_) std::memcpy(s.node, data_.data() + s.at, s.bytes);
  }
  void clear() noexcept {
    constexpr size_t keep = size_t{1} << 22;
    saved_.clear();
    data_.clear();
    if (data_.capacity() > keep) std::vector<std::byte>().swap(data_);
  }

 private:
  struct Saved {
    TreeNode* node;
    size_t at, bytes;
  };
  std::vector<Saved> saved_;
  std::vector<std::byte> data_;
};

}  // namespace onkel
