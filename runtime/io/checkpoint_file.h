// One checkpoint: a file of named fp32 tensors and a JSON text, atomic,
// checksummed and streamed. docs/checkpoint-format.md has every byte.
//
// The file knows nothing of placement, budget, chunk size or rank: a tensor is
// its name, its kind and its elements in order. The same state gives the same
// bytes, however it was cut into pieces.
//
// Invariants of a file that Open accepts (checked there):
//  1. header, index, metadata and footer match their checksums;
//  2. tensors lie one after another, without gap, from header to index, and
//     their sizes account for every byte of the file;
//  3. (name, kind) is unique;
//  4. the metadata is well-formed JSON.
// The data is checked block by block as it is read. So no byte of the file can
// change without some call returning DataLoss.
#ifndef CASTOR_RUNTIME_IO_CHECKPOINT_FILE_H_
#define CASTOR_RUNTIME_IO_CHECKPOINT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/atomic_file.h"

namespace castor {

// What a tensor is to the optimizer: the fp32 parameter, or Adam's first or
// second moment of it.
enum class CheckpointKind : uint8_t { kMaster = 0, kM = 1, kV = 2 };

// "master", "m", "v".
absl::string_view CheckpointKindName(CheckpointKind kind);

struct CheckpointTensor {
  std::string name;
  CheckpointKind kind = CheckpointKind::kMaster;
  int64_t elements = 0;
};

// Elements that share a checksum: 1 MiB, large enough for full disk speed, and
// all that a reader or writer holds of the data at once.
inline constexpr int64_t kCheckpointBlockElements = 1 << 18;

// Calls in this order, else FailedPrecondition:
//   Create (BeginTensor Append* EndTensor)* Commit
// Any failure of the disk is kept: no later call succeeds, and the destructor
// removes the temporary. Not thread-safe.
class CheckpointWriter {
 public:
  // `block_elements` in [1, 2^24]; tests make it small.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Create(
      std::string path, int64_t block_elements = kCheckpointBlockElements);

  // InvalidArgument: an empty or overlong name, a negative size, or a tensor
  // that was begun before.
  absl::Status BeginTensor(absl::string_view name, CheckpointKind kind,
                           int64_t elements);
  // The next elements of the tensor, as many or few as is convenient.
  absl::Status Append(absl::Span<const float> values);
  // FailedPrecondition unless all elements were given.
  absl::Status EndTensor();

  // `metadata_json`: at most 64 MiB, well-formed. On success the file is
  // durable under its name; until then nothing is there, or the former file.
  absl::Status Commit(absl::string_view metadata_json);

  int64_t bytes_written() const { return file_->size_bytes(); }

 private:
  CheckpointWriter(std::unique_ptr<AtomicFile> file, int64_t block_elements);
  absl::Status FlushBlock();

  const std::unique_ptr<AtomicFile> file_;
  const int64_t block_elements_;
  std::vector<CheckpointTensor> tensors_;
  absl::flat_hash_set<std::string> keys_;
  bool in_tensor_ = false;
  int64_t appended_ = 0;      // of the open tensor
  std::vector<float> block_;  // elements not yet written
};

// Not thread-safe: it keeps the block read last, so that small pieces in order
// read and check each block once. Open one reader per thread.
class CheckpointReader {
 public:
  // NotFound, PermissionDenied: the file. DataLoss: it is truncated or altered.
  // FailedPrecondition: a version that this program does not know.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(
      std::string path);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  const std::string& path() const { return path_; }
  const std::string& metadata() const { return metadata_; }
  // In the order in which they were written.
  const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  // Null when there is none.
  const CheckpointTensor* Find(absl::string_view name,
                               CheckpointKind kind) const;

  // Elements [begin, end) into out[0 .. end-begin). NotFound: no such tensor.
  // OutOfRange. DataLoss: a block does not match its checksum; what `out` then
  // holds is unspecified.
  absl::Status Read(absl::string_view name, CheckpointKind kind, int64_t begin,
                    int64_t end, float* out);

  // Reads all data. OK: every byte of the file is as it was written.
  absl::Status VerifyAll();

 private:
  CheckpointReader(std::string path, int fd);
  absl::Status ReadIndex();
  absl::Status ReadAt(int64_t offset, void* out, int64_t size_bytes) const;
  absl::Status ReadBlock(int64_t tensor, int64_t block, float* out) const;
  absl::Status ReadRange(int64_t tensor, int64_t begin, int64_t end,
                         float* out);
  absl::Status Damaged(absl::string_view what) const;

  const std::string path_;
  const int fd_;
  int64_t block_elements_ = 0;
  std::string metadata_;
  std::vector<CheckpointTensor> tensors_;
  std::vector<int64_t> offsets_;  // of each tensor's first block, bytes
  absl::flat_hash_map<std::string, int64_t> by_key_;
  std::vector<float> cached_;  // the block read last
  int64_t cached_tensor_ = -1;
  int64_t cached_block_ = -1;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_IO_CHECKPOINT_FILE_H_
