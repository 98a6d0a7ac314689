// The fixed numbers of the checkpoint format, shared by its writer, its reader
// and their tests. docs/checkpoint-format.md explains them.
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_FORMAT_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_FORMAT_H_

#include <xxhash.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/state_format.h"
#include "base/units.h"

namespace castor::checkpoint_format {

static_assert(std::endian::native == std::endian::little,
              "checkpoints are little-endian and written as memory has them");

inline constexpr absl::string_view kHeaderMagic = "CASTORCK";
inline constexpr absl::string_view kFooterMagic = "CASTOREN";
inline constexpr uint32_t kVersion = 2;
// magic, u32 version, u32 block elements, u64 checksum of these
inline constexpr int64_t kHeaderBytes = 24;
// u64 index offset, u64 index bytes, u64 metadata bytes, u64 checksum of index
// and metadata, u64 checksum of these four, magic
inline constexpr int64_t kFooterBytes = 48;
inline constexpr int64_t kChecksumBytes = 8;
// An entry of the index has, beside the name: u32 name length, u8 kind, i64
// begin, i64 elements, i64 total.
inline constexpr int64_t kEntryBytes = 4 + 1 + 3 * 8;

inline constexpr int64_t kMaxBlockElements = 1 << 24;
// StoredBytes stays far from overflow below this.
inline constexpr int64_t kMaxElements = int64_t{1} << 58;
inline constexpr int64_t kMaxNameBytes = 4096;
inline constexpr int64_t kMaxIndexBytes = int64_t{1} << 28;
inline constexpr int64_t kMaxMetadataBytes = int64_t{1} << 26;

// XXH3-64 seeded by the offset of the bytes in the file: a block in the wrong
// place does not match.
inline uint64_t Checksum(const void* data, int64_t size_bytes, int64_t offset) {
  return XXH3_64bits_withSeed(data, static_cast<size_t>(size_bytes),
                              static_cast<uint64_t>(offset));
}

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T Get(absl::string_view bytes, int64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// Whole elements of a block with so many: in 8 bits whole tiles.
constexpr int64_t PaddedElements(StateFormat format, int64_t elements) {
  return IsEightBits(format) ? RoundUp(elements, kStateTile) : elements;
}

// Bytes of a block with so many elements, without its checksum.
constexpr int64_t BlockBytes(StateFormat format, int64_t elements) {
  return StateBytes(format, PaddedElements(format, elements));
}

// Bytes that a tensor takes in the file: its elements and a checksum for each
// block that it begins. `elements` must be at most kMaxElements.
constexpr int64_t StoredBytes(StateFormat format, int64_t elements,
                              int64_t block_elements) {
  const int64_t whole = elements / block_elements;
  const int64_t rest = elements % block_elements;
  return whole * (BlockBytes(format, block_elements) + kChecksumBytes) +
         (rest > 0 ? BlockBytes(format, rest) + kChecksumBytes : 0);
}

// Returns whether a piece that begins there can be cut into such blocks.
constexpr bool CanHave(StateFormat format, int64_t begin,
                       int64_t block_elements) {
  return !IsEightBits(format) ||
         (begin % kStateTile == 0 && block_elements % kStateTile == 0);
}

// The byte of the index that says what a piece is of, and in which format.
constexpr uint8_t KindByte(int kind, StateFormat format) {
  return static_cast<uint8_t>(kind | static_cast<int>(format) << 4);
}
constexpr int KindOf(uint8_t byte) { return byte & 15; }
constexpr int FormatOf(uint8_t byte) { return byte >> 4; }
inline constexpr int kNumFormats = kNumStateFormats;

// Returns whether a tensor of `total` elements has [begin, begin + elements),
// and whether that is worth a piece.
constexpr bool IsRange(int64_t begin, int64_t elements, int64_t total) {
  return total >= 0 && total <= kMaxElements && elements >= 0 &&
         elements <= total && begin >= 0 && begin <= total - elements &&
         (elements > 0 || total == 0);
}

inline std::string Header(int64_t block_elements) {
  std::string header(kHeaderMagic);
  Put(header, kVersion);
  Put(header, static_cast<uint32_t>(block_elements));
  Put(header, Checksum(header.data(), header.size(), 0));
  return header;
}

// Index, metadata and footer, of which the first begins at `index_offset`.
inline std::string Tail(absl::string_view index, absl::string_view metadata,
                        int64_t index_offset) {
  std::string tail = absl::StrCat(index, metadata);
  const int64_t footer_offset =
      index_offset + static_cast<int64_t>(tail.size());
  std::string footer;
  Put(footer, index_offset);
  Put(footer, static_cast<int64_t>(index.size()));
  Put(footer, static_cast<int64_t>(metadata.size()));
  Put(footer, Checksum(tail.data(), tail.size(), index_offset));
  Put(footer, Checksum(footer.data(), footer.size(), footer_offset));
  return absl::StrCat(tail, footer, kFooterMagic);
}

}  // namespace castor::checkpoint_format

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_FORMAT_H_
