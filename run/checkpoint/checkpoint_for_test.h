// Checkpoints of one tensor "x", whose values follow from the step.
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_FOR_TEST_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_FOR_TEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_directory.h"
#include "run/checkpoint/checkpoint_dir.h"
#include "run/checkpoint/checkpoint_parts.h"
#include "run/checkpoint/checkpoint_writer.h"

namespace castor {

inline constexpr int64_t kElements = 5000;

inline float ValueAt(int64_t step, int64_t i) {
  return static_cast<float>(step * 31 + i);
}

inline absl::Status WriteElements(const std::string& path, int64_t step,
                                  int64_t begin, int64_t end,
                                  const std::string& metadata) {
  auto writer = CheckpointWriter::Create(path, 1000);
  if (!writer.ok()) return writer.status();
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) values[i] = ValueAt(step, i);
  absl::Status status = (*writer)->BeginPiece(
      {"x", StatePart::kMaster, begin, end - begin, kElements});
  for (int64_t at = begin; status.ok() && at < end; at += 500) {
    status = (*writer)->Append({values.data() + at, 500});
  }
  if (status.ok()) status = (*writer)->EndPiece();
  if (!status.ok()) return status;
  return (*writer)->Commit(metadata);
}

// As one rank does it, or as two.
inline absl::Status WriteStep(const CheckpointDir& dir, int64_t step,
                              int world_size = 1) {
  const std::string metadata = absl::StrCat("{\"step\":", step, "}");
  if (world_size == 1) {
    return WriteElements(dir.PathOf(step), step, 0, kElements, metadata);
  }
  auto directory = AtomicDirectory::Create(dir.PathOf(step));
  if (!directory.ok()) return directory.status();
  const std::string& inside = (*directory)->temporary_path();
  const std::string id = NewSaveId();
  for (int rank = 0; rank < 2; ++rank) {
    absl::Status written = WriteElements(
        inside + "/" + PartName(rank, 2), step, rank * kElements / 2,
        (rank + 1) * kElements / 2, FormatPartIdentity({id, rank, 2}));
    if (!written.ok()) return written;
  }
  absl::Status marked = WriteMarker(inside, id, 2, metadata);
  return marked.ok() ? (*directory)->Commit() : marked;
}

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_FOR_TEST_H_
