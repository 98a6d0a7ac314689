// The ids of words that a thread has met before: few words make up most of a
// text. It changes how long tokenizing takes and nothing else.
#ifndef CASTOR_TEXT_TOKENIZER_WORD_CACHE_H_
#define CASTOR_TEXT_TOKENIZER_WORD_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace castor::text {

// One place for each value of a hash's lower bits; a word takes the place of
// the one that was there. About 1 MB.
class WordCache {
 public:
  // The place where a word is or would be.
  struct Place {
    size_t slot;
    uint64_t owner;
  };

  static WordCache& OfThisThread();
  // Returns a new number for a tokenizer; all tokenizers share a thread's
  // cache.
  static uint64_t NewOwner();

  Place PlaceOf(uint64_t owner, absl::string_view word) const;
  // Appends the ids of `word` and returns true, if they are here.
  bool Find(const Place& place, absl::string_view word,
            std::vector<int32_t>* ids) const;
  // Keeps a word's ids; long words are not kept.
  void Keep(const Place& place, absl::string_view word,
            absl::Span<const int32_t> ids);

 private:
  // 64 bytes, a line of the processor's caches.
  struct alignas(64) Slot {
    uint64_t owner = 0;  // 0: free
    uint8_t length = 0, num_ids = 0;
    char word[30];
    int32_t ids[6];
  };
  WordCache();

  std::vector<Slot> slots_;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_WORD_CACHE_H_
