#include "text/tokenizer/longest_matches.h"

#include <string>

namespace castor::text {

bool LongestMatches::Add(absl::string_view string, int32_t value) {
  max_length_ = std::max(max_length_, string.size());
  return trie_.Add(std::string(string.rbegin(), string.rend()), value);
}

void LongestMatches::Finish() {
  const size_t size = trie_.num_nodes();
  std::vector<uint32_t> parents(size, ByteTrie::kRoot);
  std::vector<char> bytes(size, 0);
  trie_.ForEachEdge([&](uint32_t parent, char byte, uint32_t child) {
    parents[child] = parent;
    bytes[child] = byte;
    if (parent == ByteTrie::kRoot) {
      of_root_[static_cast<uint8_t>(byte)] = child;
    }
  });
  // A node is made after its parent.
  depths_.assign(size, 0);
  std::vector<uint32_t> num_at(max_length_ + 2, 0);  // by depth, then begins
  for (uint32_t node = 1; node < size; ++node) {
    depths_[node] = depths_[parents[node]] + 1;
    ++num_at[depths_[node] + 1];
  }
  for (size_t depth = 1; depth < num_at.size(); ++depth) {
    num_at[depth] += num_at[depth - 1];
  }
  std::vector<uint32_t> by_depth(size - 1);
  for (uint32_t node = 1; node < size; ++node) {
    by_depth[num_at[depths_[node]]++] = node;
  }
  shorter_.assign(size, ByteTrie::kRoot);
  longest_.assign(size, ByteTrie::kRoot);
  for (const uint32_t node : by_depth) {
    if (parents[node] != ByteTrie::kRoot) {
      shorter_[node] = Next(shorter_[parents[node]], bytes[node]);
    }
    longest_[node] =
        trie_.value(node) != ByteTrie::kNone ? node : longest_[shorter_[node]];
  }
}

}  // namespace castor::text
