// Memory of cells. They are a few kilobytes each, there may be millions, and each grows a dozen
// times while it is young: places of one size lie side by side in pages, pages in regions, and what
// is empty is used for other sizes, or given back to the system.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace onkel {

using Byte = unsigned char;

class CellMemory {
 public:
  // A place for so many bytes, all 0.
  Byte* take(int64_t size) {
    if (size > kLargest) return large(size);
    const int64_t kind = (size + kGrain - 1) / kGrain;
    Byte* found = take_place(kind);
    std::memset(found, 0, static_cast<size_t>(size));
    return found;
  }

  void give(Byte* place, int64_t size) {
    if (size > kLargest) return std::free(place);
    const std::lock_guard<std::mutex> guard(lock_);
    Page* page = page_of(place);
    std::memcpy(place, &page->free, sizeof page->free);
    page->free = place;
    if (page->used-- == page->places) link(open_[page->kind], page);  // it had no place left
    if (page->used == 0) {
      unlink(open_[page->kind], page);
      give_page(page);
    }
  }

 private:
  static constexpr int64_t kGrain = 64, kLargest = 8192, kKinds = kLargest / kGrain + 1;
  static constexpr uintptr_t kPage = 1 << 16, kRegion = 1 << 23;
  static constexpr size_t kPages = kRegion / kPage;

  // Stands at the beginning of a page.
  struct Page {
    Page *next, *before;
    Byte *free, *fresh;  // places given back, a list; those from here on were never used
    int64_t kind, used, places;
    int64_t region_used;  // of a region's first page: how many of the others are in use
  };
  static_assert(sizeof(Page) == kGrain);

  static Page* page_of(void* at) {
    return reinterpret_cast<Page*>(reinterpret_cast<uintptr_t>(at) & ~(kPage - 1));
  }
  static Page* region_of(void* at) {
    return reinterpret_cast<Page*>(reinterpret_cast<uintptr_t>(at) & ~(kRegion - 1));
  }

  static Byte* large(int64_t size) {
    Byte* found = static_cast<Byte*>(std::calloc(1, static_cast<size_t>(size)));
    if (!found) throw std::bad_alloc();
    return found;
  }

  Byte* take_place(int64_t kind) {
    const std::lock_guard<std::mutex> guard(lock_);
    Page* page = open_[kind];
    if (!page) {
      page = take_page();
      page->kind = kind, page->used = 0;
      page->places = static_cast<int64_t>(kPage - sizeof(Page)) / (kind * kGrain);
      page->free = nullptr;
      page->fresh = reinterpret_cast<Byte*>(page) + sizeof(Page);
      link(open_[kind], page);
    }
    Byte* found = page->free;
    if (found) {
      std::memcpy(&page->free, found, sizeof page->free);
    } else {
      found = page->fresh;
      page->fresh += kind * kGrain;
    }
    if (++page->used == page->places) unlink(open_[kind], page);
    return found;
  }

  static void link(Page*& list, Page* page) {
    page->before = nullptr, page->next = list;
    if (list) list->before = page;
    list = page;
  }
  static void unlink(Page*& list, Page* page) {
    (page->before ? page->before->next : list) = page->next;
    if (page->next) page->next->before = page->before;
  }

  Page* take_page() {
    if (pages_.empty()) take_region();
    Page* page = pages_.back();
    pages_.pop_back();
    ++region_of(page)->region_used;
    return page;
  }

  void take_region() {
    void* region = ::operator new(kRegion, std::align_val_t{kRegion});
#if defined(__linux__)
    ::madvise(region, kRegion, MADV_HUGEPAGE);  // a cell is then found without a walk for its page
#endif
    // The first page stays out: it begins with the count of the others.
    static_cast<Page*>(region)->region_used = 0;
    for (size_t i = kPages - 1; i > 0; --i)
      pages_.push_back(reinterpret_cast<Page*>(static_cast<Byte*>(region) + i * kPage));
  }

  void give_page(Page* page) {
    Page* region = region_of(page);
    if (--region->region_used > 0) {
      pages_.push_back(page);
#if defined(__linux__)
      if (pages_.size() > kPages) ::madvise(page, kPage, MADV_DONTNEED);
#endif
      return;
    }
    const auto of_region = [region](Page* other) { return region_of(other) == region; };
    pages_.erase(std::remove_if(pages_.begin(), pages_.end(), of_region), pages_.end());
    ::operator delete(region, std::align_val_t{kRegion});
  }

  std::mutex lock_;
  Page* open_[kKinds] = {};   // pages with a place left, by size
  std::vector<Page*> pages_;  // in no use
};

// Of all fleets of the process.
inline CellMemory& cell_memory() {
  static CellMemory* memory = new CellMemory;  // never destroyed: fleets may go after it
  return *memory;
}

}  // namespace onkel
