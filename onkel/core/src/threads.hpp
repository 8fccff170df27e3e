// Threads for the length of one call.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace {

// Threads that take tiles, in the time of one call. The caller's own takes them too, and waits only
// for those that another has begun: a thread that gets no processor costs nothing.
class Team {
 public:
  explicit Team(int threads) {
    team_.reserve(static_cast<size_t>(std::max(threads - 1, 0)));  // none runs if this fails
    try {
      for (int i = 1; i < threads; ++i) team_.emplace_back([this] { wait(); });
    } catch (const std::system_error&) {  // no more to be had: those there are do it all
    }
  }
  ~Team() {
    stop_.store(true, std::memory_order_release);
    for (auto& t : team_) t.join();
  }
  template <class Work>
  void share(int groups, Work work) {
    if (team_.empty() || groups == 1) {
      for (int g = 0; g < groups; ++g) work(g);
      return;
    }
    job_ = &work;
    run_ = [](void* job, int g) { (*static_cast<Work*>(job))(g); };
    done_.store(0, std::memory_order_relaxed);
    const uint64_t round = ++round_ << 16 | static_cast<uint64_t>(groups) << 8;
    ticket_.store(round, std::memory_order_release);
    while (take()) {
    }
    while (done_.load(std::memory_order_acquire) < groups) std::this_thread::yield();
  }

 private:
  // Takes the next tile of the present round, if there is one. The ticket is (round, tiles, tile)
  // in one word: a tile can only be taken in the round that it was seen in.
  bool take() {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    const int g = static_cast<int>(ticket & 255), groups = static_cast<int>(ticket >> 8 & 255);
    if (g >= groups) return false;
    if (!ticket_.compare_exchange_strong(ticket, ticket + 1, std::memory_order_acq_rel))
      return true;  // another was faster: look again
    run_(job_, g);
    done_.fetch_add(1, std::memory_order_release);
    return true;
  }
  void wait() {
    for (int idle = 0; !stop_.load(std::memory_order_acquire); ++idle) {
      if (take()) idle = 0;
      if (idle > 4000) std::this_thread::yield();
    }
  }
  std::vector<std::thread> team_;
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int> done_{0};
  std::atomic<bool> stop_{false};
  uint64_t round_ = 0;
  void* job_ = nullptr;
  void (*run_)(void*, int) = nullptr;
};

// Shares rows among threads: calls work(first, count) on pieces that are whole multiples of `grain`
// but for the last. Each row is done by one thread, in one order: the bits do not depend on how
// many there are.
template <class Work>
inline void share_rows(int64_t rows, int threads, int64_t grain, Work work) {
  const int64_t grains = (rows + grain - 1) / grain;
  const int64_t most = std::clamp<int64_t>(threads, 1, 255);  // tiles of one round
  const int64_t step = (grains + most - 1) / most * grain;
  if (!rows) return;
  const int pieces = static_cast<int>((rows + step - 1) / step);
  std::exception_ptr failed;
  std::once_flag first;
  Team team(pieces);
  team.share(pieces, [&](int piece) {
    try {
      work(piece * step, std::min(step, rows - piece * step));
    } catch (...) {  // no thread may end by it
      std::call_once(first, [&] { failed = std::current_exception(); });
    }
  });
  if (failed) std::rethrow_exception(failed);
}

}  // namespace
