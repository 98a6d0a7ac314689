// The file in which a tokenised data file is kept (docs/data.md): written once
// from begin to end, read by parts, each part checked.
//
//   body     a run:  tokens, of token_bytes each
//            lines:  records, and after each kLinesPerGroup of them (and after
//                    the last) their index. A record is its n tokens and, where
//                    the line has labels, n labels, of 4 bytes each. An index
//                    is a mark of 8 bytes for each record, and one for their
//                    end: 2 x (its place in the file) + (1: it has labels)
//   sums     XXH3-64 of each kBlockBytes of the body (the last may be shorter)
//   groups   lines: the places of the indexes, 8 bytes each
//   footer   TokenCacheFooter
//
// All numbers are little-endian.
#ifndef CASTOR_TEXT_DATA_TOKEN_CACHE_FORMAT_H_
#define CASTOR_TEXT_DATA_TOKEN_CACHE_FORMAT_H_

#include <bit>
#include <cstdint>

#include "base/units.h"

namespace castor {

static_assert(std::endian::native == std::endian::little,
              "token caches are read as they are");

// The text between the name of a data file and a cache's key.
inline constexpr char kTokenCacheInfix[] = ".castor-tokens-";
inline constexpr char kTokenCacheMagic[] = "castortk";  // 8, without its zero
inline constexpr uint32_t kTokenCacheVersion = 1;
inline constexpr int64_t kBlockBytes = int64_t{1} << 16;
inline constexpr int64_t kLinesPerGroup = 1024;

enum class TokenCacheKind : uint32_t { kTokens = 1, kLines = 2 };

struct TokenCacheFooter {
  char magic[8] = {};
  uint32_t version = 0;
  TokenCacheKind kind = {};
  uint64_t key = 0;  // of all but the source that decides the tokens
  // The source: its size, when it was last written to (ns since 1970), XXH3-64
  // of it; and when this file was begun.
  int64_t source_bytes = 0;
  int64_t source_modified_ns = 0;
  uint64_t source_checksum = 0;
  int64_t begun_ns = 0;
  int64_t tokens = 0;
  int64_t lines = 0;    // of text: documents
  int64_t longest = 0;  // tokens of the longest line; of text 0
  // The largest token, among labels too, and the number of the source's line
  // where it was met first (a text: where the piece with it begins).
  int64_t largest_token = -1;
  int64_t largest_token_line = 0;
  int64_t largest_is_label = 0;
  int64_t token_bytes = 0;  // 2 or 4
  int64_t body_bytes = 0;
  // XXH3-64 of the file's content, however it is laid out: of the tokens as
  // 32-bit integers, or of each line's number of tokens, tokens, labels (or
  // its tokens again).
  uint64_t content_checksum = 0;
  uint64_t tables_checksum = 0;  // XXH3-64 of sums and groups
  uint64_t footer_checksum = 0;  // XXH3-64 of all before it
};
static_assert(sizeof(TokenCacheFooter) == 144);

inline int64_t NumBlocks(const TokenCacheFooter& footer) {
  return CeilDiv(footer.body_bytes, kBlockBytes);
}
inline int64_t NumGroups(const TokenCacheFooter& footer) {
  return footer.kind == TokenCacheKind::kLines
             ? CeilDiv(footer.lines, kLinesPerGroup)
             : 0;
}

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_TOKEN_CACHE_FORMAT_H_
