// The tokens of a model and their ids.
#ifndef CASTOR_TEXT_TOKENIZER_VOCABULARY_H_
#define CASTOR_TEXT_TOKENIZER_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace castor::text {

class Vocabulary {
 public:
  // Bounds the memory that one id takes.
  static constexpr int32_t kMaxId = (1 << 24) - 1;
  // The result of Find where there is no such token.
  static constexpr int32_t kNone = -1;

  Vocabulary();

  // Adds a token. Ids may come in any order, 0 <= id <= kMaxId. Returns false,
  // and changes nothing, if the token or the id is there already.
  bool Add(absl::string_view token, int32_t id);

  int32_t Find(absl::string_view token) const;
  // Returns none if no token has this id. Valid until the next Add.
  std::optional<absl::string_view> TokenOf(int32_t id) const;

  size_t size() const { return entries_.size(); }
  // The bytes of all tokens together.
  size_t size_bytes() const { return bytes_.size(); }
  // The largest id plus one.
  int32_t end_id() const { return static_cast<int32_t>(entry_of_.size()); }

 private:
  struct Entry {
    size_t begin, length;  // in bytes_
    uint64_t hash;
    int32_t id;
  };
  static constexpr uint32_t kFree = ~uint32_t{0};

  absl::string_view TokenAt(uint32_t entry) const {
    return absl::string_view(bytes_).substr(entries_[entry].begin,
                                            entries_[entry].length);
  }
  // Returns the token's place in slots_, or the free slot where it belongs.
  size_t SlotOf(absl::string_view token, uint64_t hash) const;

  std::string bytes_;  // all tokens, one after the other
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;     // entries by hash; a power of two
  std::vector<uint32_t> entry_of_;  // by id
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_VOCABULARY_H_
