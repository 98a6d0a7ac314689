#include "text/tokenizer/word_cache.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace castor::text {
namespace {

constexpr size_t kSlots = size_t{1} << 14;

}  // namespace

WordCache::WordCache() : slots_(kSlots) {}

WordCache& WordCache::OfThisThread() {
  static thread_local WordCache cache;
  return cache;
}

uint64_t WordCache::NewOwner() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

WordCache::Place WordCache::PlaceOf(uint64_t owner,
                                    absl::string_view word) const {
  if (word.size() > sizeof(Slot::word)) return {0, 0};  // of no owner
  const uint64_t hash = XXH3_64bits_withSeed(word.data(), word.size(), owner);
  return {static_cast<size_t>(hash & (kSlots - 1)), owner};
}

bool WordCache::Find(const Place& place, absl::string_view word,
                     std::vector<int32_t>* ids) const {
  if (place.owner == 0) return false;
  const Slot& slot = slots_[place.slot];
  if (slot.owner != place.owner || slot.length != word.size() ||
      std::memcmp(slot.word, word.data(), word.size()) != 0) {
    return false;
  }
  ids->insert(ids->end(), slot.ids, slot.ids + slot.num_ids);
  return true;
}

void WordCache::Keep(const Place& place, absl::string_view word,
                     absl::Span<const int32_t> ids) {
  if (place.owner == 0 || ids.size() > std::size(Slot().ids)) return;
  Slot& slot = slots_[place.slot];
  slot.owner = place.owner;
  slot.length = static_cast<uint8_t>(word.size());
  slot.num_ids = static_cast<uint8_t>(ids.size());
  std::memcpy(slot.word, word.data(), word.size());
  std::copy(ids.begin(), ids.end(), slot.ids);
}

}  // namespace castor::text
