// A table from 64-bit keys to 64-bit values that is filled once and then read
// very often: open addressing in one array.
#ifndef CASTOR_TEXT_TOKENIZER_OPEN_TABLE_H_
#define CASTOR_TEXT_TOKENIZER_OPEN_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace castor::text {

class OpenTable {
 public:
  // Keys of any value but this one.
  static constexpr uint64_t kNoKey = ~uint64_t{0};

  OpenTable() : slots_(kLeast) {}
  explicit OpenTable(size_t expected) {
    size_t size = kLeast;
    while (size < expected * 2) size *= 2;
    slots_.resize(size);
  }

  // Returns null if there is no such key. Valid until the next Set.
  const uint64_t* Find(uint64_t key) const {
    for (size_t i = Home(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return &slots_[i].value;
      if (slots_[i].key == kNoKey) return nullptr;
    }
  }

  // Sets the key's value; an earlier one is replaced.
  void Set(uint64_t key, uint64_t value) {
    if ((size_ + 1) * 2 > slots_.size()) Grow();
    size_t i = Home(key);
    while (slots_[i].key != kNoKey && slots_[i].key != key) {
      i = (i + 1) & (slots_.size() - 1);
    }
    if (slots_[i].key == kNoKey) ++size_;
    slots_[i] = {key, value};
  }

  size_t size() const { return size_; }

  // Calls each(key, value) for all keys, in no order.
  template <class Each>
  void ForEach(const Each& each) const {
    for (const Slot& slot : slots_) {
      if (slot.key != kNoKey) each(slot.key, slot.value);
    }
  }

 private:
  static constexpr size_t kLeast = 16;
  struct Slot {
    uint64_t key = kNoKey;
    uint64_t value = 0;
  };

  // Returns the key's first place, by the finalizer of splitmix64 (Steele, Lea,
  // Flood: Fast splittable pseudorandom number generators, 2014).
  size_t Home(uint64_t key) const {
    key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9u;
    key = (key ^ key >> 27) * 0x94d049bb133111ebu;
    return (key ^ key >> 31) & (slots_.size() - 1);
  }

  void Grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    size_ = 0;
    for (const Slot& slot : old) {
      if (slot.key != kNoKey) Set(slot.key, slot.value);
    }
  }

  std::vector<Slot> slots_;  // a power of two, at least half of them free
  size_t size_ = 0;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_OPEN_TABLE_H_
