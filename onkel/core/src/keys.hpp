// Keys of a fleet: texts and whole numbers, each with a number of its own. A million of them take
// some thirty bytes each beside their text.
#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

namespace onkel {

// A key: a whole number, or (where `text` has data) a text in UTF-8.
struct Key {
  int64_t number = 0;
  std::string_view text;
  bool is_text = false;
};

class KeyTable {
 public:
  KeyTable() : seed_(std::random_device{}()), slots_(16) {}

  int64_t size() const { return count_; }
  int64_t numbers() const { return static_cast<int64_t>(entries_.size()); }
  bool has(int64_t number) const {
    return number >= 0 && number < numbers() && entries_[at(number)].kind != kNone;
  }

  // The number of a key, -1 if it is not known.
  int64_t find(const Key& key) const {
    const uint64_t hash = hash_of(key);
    for (size_t i = hash & mask();; i = (i + 1) & mask()) {
      const Slot& slot = slots_[i];
      if (!slot.number) return -1;
      if (slot.tag == tag_of(hash) && slot.number != kGone && is(slot.number - 1, key))
        return slot.number - 1;
    }
  }

  // The number of a key, a new one if it is not known.
  int64_t enter(const Key& key) {
    const int64_t known = find(key);
    if (known >= 0) return known;
    if ((used_ + 1) * 3 > static_cast<int64_t>(slots_.size()) * 2) rebuild();
    int64_t number;
    if (free_.empty()) {
      number = numbers();
      entries_.emplace_back();
    } else {
      number = free_.back();
      free_.pop_back();
    }
    entries_[at(number)] = {key.is_text ? keep(key.text) : key.number,
                            key.is_text ? kText : kWhole};
    place(hash_of(key), number);
    ++count_;
    return number;
  }

  // Forgets a key; its number is used again.
  void remove(int64_t number) {
    const uint64_t hash = hash_of(key(number));
    size_t i = hash & mask();
    while (slots_[i].number != number + 1) i = (i + 1) & mask();
    slots_[i].number = kGone;  // those behind it stay where they are
    entries_[at(number)].kind = kNone;
    free_.push_back(number);
    --count_;
  }

  Key key(int64_t number) const {
    const Entry& e = entries_[at(number)];
    if (e.kind == kWhole) return {e.value, {}, false};
    uint32_t length;
    std::memcpy(&length, texts_.data() + e.value, sizeof length);
    return {0, {texts_.data() + e.value + sizeof length, length}, true};
  }

 private:
  enum Kind : uint8_t { kNone, kWhole, kText };
  struct Entry {
    int64_t value = 0;  // the number, or where the text lies
    Kind kind = kNone;
  };
  struct Slot {
    uint32_t tag = 0;
    uint32_t number = 0;  // one more than it; 0: none
  };
  static constexpr uint32_t kGone = 0xffffffff;

  static size_t at(int64_t n) { return static_cast<size_t>(n); }
  size_t mask() const { return slots_.size() - 1; }
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  uint64_t hash_of(const Key& key) const {
    uint64_t z = key.is_text ? std::hash<std::string_view>{}(key.text) + 1
                             : static_cast<uint64_t>(key.number);
    z = (z ^ seed_) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

  bool is(int64_t number, const Key& other) const {
    const Entry& e = entries_[at(number)];
    if (e.kind == kNone || (e.kind == kText) != other.is_text) return false;
    return other.is_text ? key(number).text == other.text : e.value == other.number;
  }

  int64_t keep(std::string_view text) {
    const auto offset = static_cast<int64_t>(texts_.size());
    const auto length = static_cast<uint32_t>(text.size());
    const auto* head = reinterpret_cast<const char*>(&length);
    texts_.insert(texts_.end(), head, head + sizeof length);
    texts_.insert(texts_.end(), text.begin(), text.end());
    return offset;
  }

  void place(uint64_t hash, int64_t number) {
    size_t i = hash & mask();
    while (slots_[i].number && slots_[i].number != kGone) i = (i + 1) & mask();
    used_ += !slots_[i].number;
    slots_[i] = {tag_of(hash), static_cast<uint32_t>(number + 1)};
  }

  // Makes room for more keys, without the places and the texts of those that are gone.
  void rebuild() {
    size_t size = 16;
    while (static_cast<int64_t>(size) < 2 * (count_ + 1)) size *= 2;
    std::vector<Slot>(size).swap(slots_);
    used_ = 0;
    std::vector<char> texts;
    texts.swap(texts_);
    for (int64_t k = 0; k < numbers(); ++k) {
      Entry& e = entries_[at(k)];
      if (e.kind == kNone) continue;
      if (e.kind == kText) {
        uint32_t length;
        std::memcpy(&length, texts.data() + e.value, sizeof length);
        e.value = keep({texts.data() + e.value + sizeof length, length});
      }
      place(hash_of(key(k)), k);
    }
  }

  const uint64_t seed_;
  std::vector<Slot> slots_;
  std::vector<Entry> entries_;
  std::vector<char> texts_;
  std::vector<int64_t> free_;
  int64_t count_ = 0, used_ = 0;
};

}  // namespace onkel
