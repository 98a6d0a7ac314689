// A set of byte strings with a number each, which finds all that begin a text
// at once.
#ifndef CASTOR_TEXT_TOKENIZER_BYTE_TRIE_H_
#define CASTOR_TEXT_TOKENIZER_BYTE_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "text/tokenizer/open_table.h"

namespace castor::text {

class ByteTrie {
 public:
  static constexpr int32_t kNone = -1;
  static constexpr uint32_t kRoot = 0;
  // The most bytes that all strings of one trie together should have: each
  // takes up to 80 bytes of memory.
  static constexpr size_t kMaxBytes = size_t{32} << 20;

  ByteTrie() : values_(1, kNone) {}

  // Adds a string. Returns false if it is there already; its number is `value`
  // from now on.
  bool Add(absl::string_view string, int32_t value) {
    uint32_t node = kRoot;
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

  // Calls found(length, value) for each string that `text` begins with, the
  // shortest first. Returns how many bytes it looked at.
  template <class Found>
  size_t ForEachHead(absl::string_view text, const Found& found) const {
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      const uint64_t* child = children_.Find(KeyOf(node, text[i]));
      if (child == nullptr) return i + 1;
      node = static_cast<uint32_t>(*child);
      if (values_[node] != kNone) found(i + 1, values_[node]);
    }
    return text.size();
  }

  // Each node stands for a head of a string.
  size_t num_nodes() const { return values_.size(); }
  int32_t value(uint32_t node) const { return values_[node]; }
  std::optional<uint32_t> Child(uint32_t node, char byte) const {
    const uint64_t* child = children_.Find(KeyOf(node, byte));
    if (child == nullptr) return std::nullopt;
    return static_cast<uint32_t>(*child);
  }
  // Calls edge(node, byte, child) for each child, in no order. A node's number
  // is less than its children's.
  template <class Edge>
  void ForEachEdge(const Edge& edge) const {
    children_.ForEach([&](uint64_t key, uint64_t child) {
      edge(static_cast<uint32_t>(key >> 8), static_cast<char>(key & 0xff),
           static_cast<uint32_t>(child));
    });
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
