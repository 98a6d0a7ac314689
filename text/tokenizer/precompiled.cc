#include "text/tokenizer/precompiled.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "text/tokenizer/allowance.h"
#include "text/tokenizer/unicode/graphemes.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

// Longer clusters are replaced code point by code point. SentencePiece itself
// knows nothing of clusters; `tokenizers` does.
constexpr size_t kMaxClusterBytes = 5;

// SentencePiece looks up at most so many keys at one place of a text, each the
// head of the next, and does not notice more.
constexpr size_t kMaxNestedKeys = 32;

// SentencePiece may write so many bytes for one of a text; NFKC writes up
// to 11.
constexpr size_t kMaxReplacementBytes = Allowance::kBytesPerByte;

// One unit of the trie. A node's children, and the value of what ends there,
// lie at its own place xor its offset, xor a child's byte.
class Unit {
 public:
  explicit Unit(uint32_t bits) : bits_(bits) {}
  uint32_t offset() const { return (bits_ >> 10) << ((bits_ & 1 << 9) >> 6); }
  // The byte that leads here; of a value no byte at all.
  uint32_t label() const { return bits_ & (uint32_t{1} << 31 | 0xff); }
  bool has_value() const { return (bits_ >> 8 & 1) != 0; }
  uint32_t value() const { return bits_ & ((uint32_t{1} << 31) - 1); }

 private:
  uint32_t bits_;
};

class Precompiled : public Normalizer {
 public:
  Precompiled(std::vector<uint32_t> trie, std::string replacements)
      : trie_(std::move(trie)), replacements_(std::move(replacements)) {}

  absl::Status Apply(NormalizedText* text) const override {
    const absl::string_view whole = text->text;
    std::string result;
    result.reserve(whole.size());
    for (size_t begin = 0; begin < whole.size() && !text->IsTooLarge(result);) {
      const size_t end = GraphemeEnd(whole, begin);
      const absl::string_view cluster = whole.substr(begin, end - begin);
      begin = end;
      if (cluster.size() <= kMaxClusterBytes) {
        if (const auto replacement = Find(cluster); replacement.has_value()) {
          result.append(replacement->data(), replacement->size());
          continue;
        }
      }
      for (size_t i = 0; i < cluster.size();) {
        const size_t place = i;
        (void)NextCodePoint(cluster, &i);
        const absl::string_view one = cluster.substr(place, i - place);
        const absl::string_view written = Find(one).value_or(one);
        result.append(written.data(), written.size());
      }
    }
    text->text = std::move(result);
    return absl::OkStatus();
  }

 private:
  // Returns the replacement of the shortest head of `text` that is in the trie:
  // all of `text` is replaced by it.
  std::optional<absl::string_view> Find(absl::string_view text) const {
    if (trie_.empty()) return std::nullopt;
    size_t place = Unit(trie_[0]).offset();
    for (const char c : text) {
      const auto byte = static_cast<uint8_t>(c);
      place ^= byte;
      if (byte == 0 || place >= trie_.size()) return std::nullopt;
      const Unit unit(trie_[place]);
      if (unit.label() != byte) return std::nullopt;
      place ^= unit.offset();
      if (place >= trie_.size()) return std::nullopt;
      if (!unit.has_value()) continue;
      const size_t begin = Unit(trie_[place]).value();
      if (begin >= replacements_.size() ||
          IsUtf8Continuation(replacements_[begin])) {
        return std::nullopt;
      }
      const size_t end = replacements_.find('\0', begin);
      return absl::string_view(replacements_).substr(begin, end - begin);
    }
    return std::nullopt;
  }

  const std::vector<uint32_t> trie_;
  const std::string replacements_;
};

// A map, taken apart.
struct Map {
  std::vector<uint32_t> trie;
  absl::string_view replacements;
};

absl::StatusOr<Map> ReadMap(absl::string_view map) {
  const auto number = [map](size_t place) {
    uint32_t value = 0;
    for (int i = 3; i >= 0; --i) {
      value = value << 8 | static_cast<uint8_t>(map[place + i]);
    }
    return value;
  };
  if (map.size() < 4) {
    return absl::InvalidArgumentError("the map is shorter than 4 bytes");
  }
  const uint32_t trie_bytes = number(0);
  if (trie_bytes % 4 != 0 || trie_bytes > map.size() - 4) {
    return absl::InvalidArgumentError("the map's trie is not of its size");
  }
  Map result;
  for (size_t place = 4; place < 4 + trie_bytes; place += 4) {
    result.trie.push_back(number(place));
  }
  result.replacements = map.substr(4 + trie_bytes);
  if (!IsValidUtf8(result.replacements)) {
    return absl::InvalidArgumentError("the map's replacements are not UTF-8");
  }
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Normalizer>> MakePrecompiled(
    absl::string_view map) {
  CASTOR_ASSIGN_OR_RETURN(Map read, ReadMap(map));
  return std::make_unique<const Precompiled>(std::move(read.trie),
                                             std::string(read.replacements));
}

absl::Status CheckPrecompiled(absl::string_view map) {
  CASTOR_ASSIGN_OR_RETURN(const Map read, ReadMap(map));
  const std::vector<uint32_t>& trie = read.trie;
  if (read.replacements.empty() || read.replacements.back() != '\0') {
    return absl::InvalidArgumentError("the map's replacements have no end");
  }
  // A node is the place that its children's are found from; `values` is how
  // many of the nodes on the way to it, itself included, have a value.
  struct Node {
    size_t place;
    size_t values;
  };
  std::vector<Node> open;
  // By place: the most values with which the node was met, plus one.
  std::vector<uint8_t> met(trie.size());
  const auto visit = [&](Node node) {
    // All children lie in the node's own block of 256 units.
    if ((node.place | 0xff) >= trie.size()) {
      return absl::InvalidArgumentError("the map's trie leads out of itself");
    }
    if (node.values > kMaxNestedKeys) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMaxNestedKeys, " keys begin alike"));
    }
    if (met[node.place] <= node.values) {
      met[node.place] = static_cast<uint8_t>(node.values + 1);
      open.push_back(node);
    }
    return absl::OkStatus();
  };
  if (trie.empty()) return absl::InvalidArgumentError("the trie is empty");
  CASTOR_RETURN_IF_ERROR(visit({Unit(trie[0]).offset(), 0}));
  while (!open.empty()) {
    const Node node = open.back();
    open.pop_back();
    for (size_t byte = 1; byte < 256; ++byte) {
      const size_t place = node.place ^ byte;
      const Unit unit(trie[place]);
      if (unit.label() != byte) continue;
      const Node child = {place ^ unit.offset(),
                          node.values + (unit.has_value() ? 1 : 0)};
      CASTOR_RETURN_IF_ERROR(visit(child));
      if (!unit.has_value()) continue;
      const size_t begin = Unit(trie[child.place]).value();
      if (begin >= read.replacements.size()) {
        return absl::InvalidArgumentError("a replacement lies outside the map");
      }
      if (!absl::StrContains(
              read.replacements.substr(begin, kMaxReplacementBytes + 1),
              '\0')) {
        return absl::InvalidArgumentError(absl::StrCat(
            "a replacement has more than ", kMaxReplacementBytes, " bytes"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace castor::text
