#include "text/tokenizer/vocabulary.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"

namespace castor::text {

Vocabulary::Vocabulary() : slots_(64, kFree) {}

size_t Vocabulary::SlotOf(absl::string_view token, uint64_t hash) const {
  size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot] != kFree) {
    const uint32_t entry = slots_[slot];
    if (entries_[entry].hash == hash && TokenAt(entry) == token) break;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

bool Vocabulary::Add(absl::string_view token, int32_t id) {
  CASTOR_CHECK(id >= 0 && id <= kMaxId);
  if ((entries_.size() + 1) * 2 > slots_.size()) {
    std::vector<uint32_t> slots(slots_.size() * 2, kFree);
    for (uint32_t entry = 0; entry < entries_.size(); ++entry) {
      size_t slot = entries_[entry].hash & (slots.size() - 1);
      while (slots[slot] != kFree) slot = (slot + 1) & (slots.size() - 1);
      slots[slot] = entry;
    }
    slots_.swap(slots);
  }
  const uint64_t hash = XXH3_64bits(token.data(), token.size());
  const size_t slot = SlotOf(token, hash);
  if (slots_[slot] != kFree) return false;
  const auto place = static_cast<size_t>(id);
  if (place < entry_of_.size() && entry_of_[place] != kFree) return false;
  if (place >= entry_of_.size()) entry_of_.resize(place + 1, kFree);
  const auto entry = static_cast<uint32_t>(entries_.size());
  entries_.push_back({bytes_.size(), token.size(), hash, id});
  bytes_.append(token.data(), token.size());
  slots_[slot] = entry;
  entry_of_[place] = entry;
  return true;
}

int32_t Vocabulary::Find(absl::string_view token) const {
  const size_t slot = SlotOf(token, XXH3_64bits(token.data(), token.size()));
  return slots_[slot] == kFree ? kNone : entries_[slots_[slot]].id;
}

std::optional<absl::string_view> Vocabulary::TokenOf(int32_t id) const {
  if (id < 0 || id >= end_id() || entry_of_[id] == kFree) return std::nullopt;
  return TokenAt(entry_of_[id]);
}

}  // namespace castor::text
