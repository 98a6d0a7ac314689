// The bytes of a data file, unpacked where the file is compressed.
#ifndef CASTOR_TEXT_DATA_SOURCE_BYTES_H_
#define CASTOR_TEXT_DATA_SOURCE_BYTES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

// Bytes that are read once, from begin to end. Not thread-safe.
class SourceBytes {
 public:
  virtual ~SourceBytes() = default;

  // Reads at least one byte and at most `most`, which is more than 0, into
  // `out`, and returns how many; 0: there are no more. DataLoss or
  // InvalidArgument: they cannot be read; the message goes on after the file's
  // name: "is cut off". Nothing is read after an error.
  virtual absl::StatusOr<int64_t> Read(char* out, int64_t most) = 0;

  // Passes over `count` bytes, which are read where they cannot be jumped over.
  // InvalidArgument: there are fewer. Others: as Read.
  virtual absl::Status Skip(int64_t count);
};

enum class Compression : uint8_t { kNone, kGzip, kZstd };

// The compression that the end of a file's name tells (".gz", ".zst"), and the
// name without it.
struct UnpackedName {
  Compression compression = Compression::kNone;
  absl::string_view name;  // part of the path that was given
};
UnpackedName UnpackName(absl::string_view path);

// Returns the first `size_bytes` bytes of the open file, unpacked. The
// descriptor is borrowed, and its own position is neither used nor changed.
// *taken_bytes (may be null) becomes the number of the file's own bytes that
// were read.
//
// All members of a compressed file are read, one after another, as by gunzip
// and unzstd. InvalidArgument: it is not compressed in that way, is damaged,
// ends too early, has something else after its end, or would take more than
// 128 MiB of memory to unpack.
std::unique_ptr<SourceBytes> BytesOfFile(int fd, int64_t size_bytes,
                                         Compression compression,
                                         int64_t* taken_bytes);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_SOURCE_BYTES_H_
