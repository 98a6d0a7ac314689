// Writes one checkpoint file as a stream, atomically: it holds one block.
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_WRITER_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/atomic_file.h"
#include "run/checkpoint/checkpoint_piece.h"

namespace castor {

// Elements that share a checksum: 1 MiB, large enough for full disk speed, and
// all that a reader or writer holds of the data at once.
inline constexpr int64_t kCheckpointBlockElements = 1 << 18;

// Calls in this order, else FailedPrecondition:
//   Create (BeginPiece Append* EndPiece)* Commit
// Any failure of the disk is kept: no later call succeeds, and the destructor
// removes the temporary. Not thread-safe.
class CheckpointWriter {
 public:
  // `block_elements` in [1, 2^24]; tests make it small.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Create(
      std::string path, int64_t block_elements = kCheckpointBlockElements);

  // See AtomicFile::Reserve.
  absl::Status Reserve(int64_t size_bytes) {
    return file_->Reserve(size_bytes);
  }

  // InvalidArgument: an empty or overlong name, a range that is none of the
  // tensor, a second piece of a tensor, or one in 8 bits that does not begin at
  // a tile.
  absl::Status BeginPiece(CheckpointPiece piece);
  // The next elements of the piece, as many or few as is convenient.
  absl::Status Append(absl::Span<const float> values);
  // FailedPrecondition unless all elements were given.
  absl::Status EndPiece();

  // `metadata_json`: at most 64 MiB, well-formed. On success the file is
  // durable under its name; until then nothing is there, or what was before.
  absl::Status Commit(absl::string_view metadata_json);

  // The disk's failure, or OK: tells it from what was wrong with a call.
  const absl::Status& file_status() const { return file_->status(); }

 private:
  CheckpointWriter(std::unique_ptr<AtomicFile> file, int64_t block_elements);
  absl::Status FlushBlock();

  const std::unique_ptr<AtomicFile> file_;
  const int64_t block_elements_;
  std::vector<CheckpointPiece> pieces_;
  std::unordered_set<std::string> keys_;
  bool in_piece_ = false;
  int64_t appended_ = 0;          // of the open piece
  std::vector<float> block_;      // elements not yet written
  std::vector<std::byte> codes_;  // the same in their piece's format
};

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_WRITER_H_
