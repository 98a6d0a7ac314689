// Reads one checkpoint file: pieces of named fp32 tensors and a JSON text,
// checksummed and streamed. docs/checkpoint-format.md has every byte.
//
// The file knows nothing of placement, budget or chunk size: a piece is its
// tensor's name and kind, its place in the tensor, and its elements in order.
// The same state gives the same bytes, however it was cut into chunks.
//
// Invariants of a file that Open accepts (checked there):
//  1. header, index, metadata and footer match their checksums;
//  2. pieces lie one after another, without gap, from header to index, and
//     their sizes account for every byte of the file;
//  3. (name, kind) is unique, and the piece lies in its tensor;
//  4. the metadata is well-formed JSON.
// The data is checked block by block as it is read. So no byte of the file can
// change without some call returning DataLoss.
//
// How much memory is wanted is the file's to say, up to the format's limits:
// each call returns ResourceExhausted where there is less.
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_FILE_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "run/checkpoint/checkpoint_piece.h"

namespace castor {

// The block that its user read last, so that small ranges in order read and
// check each block once. One per thread, for any number of files.
struct CheckpointBlock {
  int64_t file = -1;  // CheckpointFile::id
  int64_t piece = -1;
  int64_t block = -1;
  std::vector<float> values;
};

// Thread-safe.
class CheckpointFile {
 public:
  // NotFound, PermissionDenied: the file. DataLoss: it is truncated or altered.
  // Aborted (of all that reads): it was cut while it was read.
  // FailedPrecondition: a version that this program does not know.
  static absl::StatusOr<std::unique_ptr<CheckpointFile>> Open(std::string path);
  ~CheckpointFile();
  CheckpointFile(const CheckpointFile&) = delete;
  CheckpointFile& operator=(const CheckpointFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& metadata() const { return metadata_; }
  // They come in the order in which they were written.
  const std::vector<CheckpointPiece>& pieces() const { return pieces_; }
  int64_t size_bytes() const { return size_bytes_; }
  // The footer's checksum, which covers that of index and metadata.
  uint64_t seal() const { return seal_; }

  // Elements [begin, end) of the tensor, all of them in piece number `piece`,
  // into out[0 .. end-begin). DataLoss: a block does not match its checksum;
  // what `out` then holds is unspecified.
  absl::Status Read(int64_t piece, int64_t begin, int64_t end, float* out,
                    CheckpointBlock* last) const;

  // A checksum of the seal and of the checksums of the pieces' first blocks:
  // tells the file from those of other steps and runs, without reading what it
  // holds.
  absl::StatusOr<uint64_t> Identity() const;

  // Reads all data. OK: every byte of the file is as it was written.
  absl::Status VerifyAll() const;

  // DataLoss: `what` is wrong with the file.
  absl::Status Damaged(absl::string_view what) const;

 private:
  CheckpointFile(std::string path, int fd);
  absl::Status ReadHeader();
  absl::Status ReadTail();
  absl::Status ReadIndex(absl::string_view index, int64_t index_offset);
  absl::Status ReadAt(int64_t offset, void* out, int64_t size_bytes) const;
  absl::Status ReadBlock(int64_t piece, int64_t block, float* out) const;
  absl::Status ReadRange(int64_t piece, int64_t begin, int64_t end, float* out,
                         CheckpointBlock* last) const;
  absl::Status VerifyBlocks() const;

  const std::string path_;
  const int fd_;
  const int64_t id_;  // of this object in this process
  int64_t size_bytes_ = 0;
  int64_t block_elements_ = 0;
  uint64_t seal_ = 0;
  std::string metadata_;
  std::vector<CheckpointPiece> pieces_;
  std::vector<int64_t> offsets_;  // of each piece's first block, bytes
};

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_FILE_H_
