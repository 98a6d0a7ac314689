// A checkpoint, read as whole tensors, whether it is one file or a directory of
// several ranks' parts.
//
// Open accepts files that CheckpointFile accepts: of one rank whole tensors
// only; of several every part that the marker names, each that of the save and
// unchanged since, whose pieces make up each tensor without gap or overlap.
// Only headers and indexes are read then; of the data, later, the blocks that
// are asked for.
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_READER_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "run/checkpoint/checkpoint_file.h"
#include "run/checkpoint/checkpoint_piece.h"

namespace castor {

// Not thread-safe: it keeps the block read last. Open one reader per thread. It
// holds every part open.
class CheckpointReader {
 public:
  // NotFound, PermissionDenied: the file. DataLoss: it is not whole; the
  // message names the part, and why. FailedPrecondition: a version that this
  // program does not know.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(
      std::string path);

  const std::string& path() const { return path_; }
  const std::string& metadata() const { return metadata_; }
  // Those of one file come in the order in which they were written, those of
  // parts by name.
  const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  // Null when there is none.
  const CheckpointTensor* Find(absl::string_view name, StatePart kind) const;

  // Elements [begin, end) into out[0 .. end-begin). NotFound: no such tensor.
  // OutOfRange. DataLoss: a block does not match its checksum; what `out` then
  // holds is unspecified.
  absl::Status Read(absl::string_view name, StatePart kind, int64_t begin,
                    int64_t end, float* out);

  // A checksum of the files' identities.
  absl::StatusOr<uint64_t> Identity() const;

  // Reads all data. OK: every byte of the checkpoint is as it was written.
  absl::Status VerifyAll() const;

 private:
  struct Place {
    int64_t begin = 0;  // of the tensor's elements
    int file = 0;
    int64_t piece = 0;
  };

  explicit CheckpointReader(std::string path) : path_(std::move(path)) {}
  absl::Status OpenFile();
  absl::Status OpenDirectory();
  absl::Status Assemble();
  absl::Status AssembleTensor(const CheckpointTensor& tensor,
                              std::vector<Place>& places) const;
  const CheckpointPiece& PieceAt(const Place& place) const {
    return files_[place.file]->pieces()[place.piece];
  }
  absl::Status Damaged(absl::string_view what) const;

  const std::string path_;
  std::string metadata_;
  std::vector<std::unique_ptr<CheckpointFile>> files_;
  std::vector<CheckpointTensor> tensors_;
  std::vector<std::vector<Place>> places_;  // of each tensor, in order
  std::unordered_map<std::string, int64_t> by_key_;
  CheckpointBlock last_;
};

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_READER_H_
