// The fixed numbers of the checkpoint format, shared by its writer, its reader
// and their tests. docs/checkpoint-format.md explains them.
#ifndef CASTOR_RUNTIME_IO_CHECKPOINT_FORMAT_H_
#define CASTOR_RUNTIME_IO_CHECKPOINT_FORMAT_H_

#include <xxhash.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace castor::checkpoint_format {

static_assert(std::endian::native == std::endian::little,
              "checkpoints are little-endian and written as memory has them");

inline constexpr absl::string_view kHeaderMagic = "CASTORCK";
inline constexpr absl::string_view kFooterMagic = "CASTOREN";
inline constexpr uint32_t kVersion = 1;
// magic, u32 version, u32 block elements, u64 checksum of these
inline constexpr int64_t kHeaderBytes = 24;
// u64 index offset, u64 index bytes, u64 metadata bytes, u64 checksum of index
// and metadata, u64 checksum of these four, magic
inline constexpr int64_t kFooterBytes = 48;
inline constexpr int64_t kChecksumBytes = 8;

inline constexpr int64_t kMaxBlockElements = 1 << 24;
inline constexpr int64_t kMaxNameBytes = 4096;
inline constexpr int64_t kMaxIndexBytes = int64_t{1} << 28;
inline constexpr int64_t kMaxMetadataBytes = int64_t{1} << 26;

// XXH3-64 seeded by the offset of the bytes in the file: a block in the wrong
// place does not match.
inline uint64_t Checksum(const void* data, int64_t size_bytes,
                         int64_t offset) {
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

// Bytes that a tensor takes in the file: its elements and a checksum for each
// block that it begins. `elements` must be at most 2^60.
constexpr int64_t StoredBytes(int64_t elements, int64_t block_elements) {
  const int64_t blocks =
      elements / block_elements + (elements % block_elements != 0);
  return elements * 4 + blocks * kChecksumBytes;
}

}  // namespace castor::checkpoint_format

#endif  // CASTOR_RUNTIME_IO_CHECKPOINT_FORMAT_H_
