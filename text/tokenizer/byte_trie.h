// Strings of bytes with a number each, among which all that begin a text are
// found at once.
#ifndef CASTOR_TEXT_TOKENIZER_BYTE_TRIE_H_
#define CASTOR_TEXT_TOKENIZER_BYTE_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "text/tokenizer/open_table.h"

namespace castor::text {

class ByteTrie {
 public:
  static constexpr int32_t kNone = -1;

  ByteTrie() : values_(1, kNone) {}

  // False: there is such a string already; its number is `value` from now on.
  bool Add(absl::string_view string, int32_t value) {
    uint32_t node = 0;
    for (const char byte : string) {
      const uint64_t key = KeyOf(node, byte);
      if (const uint64_t* child = children_.Find(key); child != nullptr) {
        node = static_cast<uint32_t>(*child);
        continue;
      }
      node = static_cast<uint32_t>(values_.size());
      children_.Set(key, node);
      values_.push_back(kNone);
    }
    const bool is_new = values_[node] == kNone;
    values_[node] = value;
    return is_new;
  }

  // found(length, value) for each string that `text` begins with, the shortest
  // first.
  template <class Found>
  void ForEachHead(absl::string_view text, const Found& found) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const uint64_t* child = children_.Find(KeyOf(node, text[i]));
      if (child == nullptr) return;
      node = static_cast<uint32_t>(*child);
      if (values_[node] != kNone) found(i + 1, values_[node]);
    }
  }

 private:
  static uint64_t KeyOf(uint32_t node, char byte) {
    return uint64_t{node} << 8 | static_cast<uint8_t>(byte);
  }

  OpenTable children_;
  std::vector<int32_t> values_;  // by node; the root is the first
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_BYTE_TRIE_H_
