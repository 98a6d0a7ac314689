// LongestMatches keeps strings of bytes with a number each and finds the
// longest that begins at each place of a text, in time that grows with the text
// alone, however long and alike the strings are.
//
// It is the automaton of Aho and Corasick (Efficient string matching, 1975) of
// the strings spelled backwards, run from a text's end to its beginning: at
// each place its state is the longest head of a string spelled backwards that
// it has just read, and so tells the longest string that begins there.
#ifndef CASTOR_TEXT_TOKENIZER_LONGEST_MATCHES_H_
#define CASTOR_TEXT_TOKENIZER_LONGEST_MATCHES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "text/tokenizer/byte_trie.h"

namespace castor::text {

class LongestMatches {
 public:
  // Adds a string, which is not empty. Returns false if it is there already;
  // its number is `value` from now on.
  bool Add(absl::string_view string, int32_t value);
  // Builds the automaton. Must be called after the last Add and before
  // FindBackwards.
  void Finish();

  bool empty() const { return max_length_ == 0; }

  // Calls found(place, length, value) with the longest string at each place in
  // [begin, end) of `text` at which one begins, from the last place to the
  // first.
  template <class Found>
  void FindBackwards(absl::string_view text, size_t begin, size_t end,
                     const Found& found) const {
    if (empty()) return;
    uint32_t node = ByteTrie::kRoot;
    for (size_t i = std::min(text.size(), end + max_length_ - 1); i > begin;) {
      node = Next(node, text[--i]);
      const uint32_t longest = longest_[node];
      if (longest != ByteTrie::kRoot && i < end) {
        found(i, size_t{depths_[longest]}, trie_.value(longest));
      }
    }
  }

 private:
  uint32_t Next(uint32_t node, char byte) const {
    while (node != ByteTrie::kRoot) {
      if (const auto child = trie_.Child(node, byte); child.has_value()) {
        return *child;
      }
      node = shorter_[node];
    }
    return of_root_[static_cast<uint8_t>(byte)];
  }

  ByteTrie trie_;  // of the strings spelled backwards
  size_t max_length_ = 0;
  std::array<uint32_t, 256> of_root_ = {};  // the root's child, or the root
  // These are by node: the length of its string; the node of the longest proper
  // tail of it that is a node's, too; the node of its longest tail that was
  // added, which is the root where there is none.
  std::vector<uint32_t> depths_, shorter_, longest_;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_LONGEST_MATCHES_H_
