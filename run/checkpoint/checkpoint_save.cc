#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_directory.h"
#include "base/check.h"
#include "base/first_not_finite.h"
#include "base/status_macros.h"
#include "device/comm/agreement.h"
#include "run/checkpoint/checkpoint.h"
#include "run/checkpoint/checkpoint_parts.h"
#include "run/checkpoint/checkpoint_reader.h"
#include "run/checkpoint/checkpoint_size.h"
#include "run/checkpoint/checkpoint_writer.h"

namespace castor {
namespace {

// Turns the error of a checkpoint that could not be written, while the memory
// is as it was, into Aborted.
absl::Status NotWritten(const absl::Status& status) {
  return status.ok() ? status : absl::AbortedError(status.message());
}

absl::Status WriteShardsTo(CheckpointWriter& writer, const std::string& path,
                           const Parameters& parameters, ChunkStore& store,
                           int64_t step, const Communicator* communicator,
                           const std::string& file_metadata) {
  const ChunkLayout& layout = store.layout();
  CASTOR_RETURN_IF_ERROR(writer.Reserve(
      CheckpointFileBytes(parameters, layout, layout.rank,
                          static_cast<int64_t>(file_metadata.size()))));
  CASTOR_RETURN_IF_ERROR(VisitModelState(
      parameters, store, /*with_states=*/true,
      [&](const Parameter& parameter, StatePart part, int64_t begin,
          absl::Span<const float> values) -> absl::Status {
        // This stops the save at once when another rank is dead, not after
        // minutes.
        if (communicator != nullptr) {
          CASTOR_RETURN_IF_ERROR(communicator->failure());
        }
        const ParameterRange own =
            OwnedBy(layout.rank, parameter, part, layout);
        if (begin == own.begin) {
          CASTOR_RETURN_IF_ERROR(writer.BeginPiece(
              {parameter.name, part, own.begin, own.end - own.begin,
               ElementsOf(parameter, part, layout),
               layout.states.format(part)}));
        }
        const int64_t bad = FirstNotFinite(values);
        if (bad >= 0) {
          return absl::OutOfRangeError(absl::StrCat(
              "after step ", step, ", ",
              DescribeValue(parameter, part, values[bad], layout), ", so ",
              path,
              " is not written: resume from an earlier checkpoint with "
              "a lower learning rate or stronger clipping, and "
              "--resume-changed (in PyTorch: changed=True)"));
        }
        CASTOR_RETURN_IF_ERROR(writer.Append(values));
        const int64_t end = begin + static_cast<int64_t>(values.size());
        return end == own.end ? writer.EndPiece() : absl::OkStatus();
      }));
  return writer.Commit(file_metadata);
}

// Writes this rank's shards to `file`; `path` is the checkpoint's name.
// NotFound: the directory of `file`.
absl::Status WriteShards(const std::string& file, const std::string& path,
                         const Parameters& parameters, ChunkStore& store,
                         int64_t step, const Communicator* communicator,
                         const std::string& file_metadata) {
  auto created = CheckpointWriter::Create(file);
  if (absl::IsNotFound(created.status())) return created.status();
  CASTOR_RETURN_IF_ERROR(NotWritten(created.status()));
  CheckpointWriter& writer = **created;
  const absl::Status written = WriteShardsTo(writer, path, parameters, store,
                                             step, communicator, file_metadata);
  return writer.file_status().ok() ? written : NotWritten(writer.file_status());
}

// Returns the error of a rank that does not find another's files.
absl::Status NotShared(absl::string_view path, absl::string_view what,
                       const absl::Status& status) {
  return absl::FailedPreconditionError(absl::StrCat(
      path, " is not written: ", what,
      "; checkpoint.dir must be on a file system that all ranks share (",
      status.message(), ")"));
}

// One rank's side of a save by several.
class SharedSave {
 public:
  SharedSave(const std::string& path, Communicator* communicator)
      : path_(path),
        ranks_(*communicator),
        identity_{.save_id = "",
                  .rank = communicator->rank(),
                  .world_size = communicator->world_size()} {}

  absl::Status Run(const Parameters& parameters, ChunkStore& store,
                   const CheckpointMetadata& metadata) {
    CASTOR_RETURN_IF_ERROR(Agree(Begin()));
    CASTOR_RETURN_IF_ERROR(
        BroadcastText(ranks_, "checkpoint: name", 0, &temporary_));
    CASTOR_RETURN_IF_ERROR(
        BroadcastText(ranks_, "checkpoint: id", 0, &identity_.save_id));
    CASTOR_RETURN_IF_ERROR(
        Agree(WritePart(parameters, store, metadata.state.trainer.step)));
    return Agree(Commit(FormatMetadata(metadata)));
  }

 private:
  bool leads() const { return identity_.rank == 0; }

  absl::Status Agree(const absl::Status& status) {
    return AgreeOnStatus(ranks_, "checkpoint", status);
  }

  absl::Status Begin() {
    if (!leads()) return absl::OkStatus();
    auto directory = AtomicDirectory::Create(path_);
    CASTOR_RETURN_IF_ERROR(NotWritten(directory.status()));
    directory_ = *std::move(directory);
    temporary_ = directory_->temporary_path();
    identity_.save_id = NewSaveId();
    return absl::OkStatus();
  }

  absl::Status WritePart(const Parameters& parameters, ChunkStore& store,
                         int64_t step) {
    const absl::Status written = WriteShards(
        absl::StrCat(temporary_, "/",
                     PartName(identity_.rank, identity_.world_size)),
        path_, parameters, store, step, &ranks_, FormatPartIdentity(identity_));
    // Rank 0 has just made the directory.
    return absl::IsNotFound(written)
               ? NotShared(path_, "the directory that rank 0 made is not there",
                           written)
               : written;
  }

  // All parts are written.
  absl::Status Commit(const std::string& metadata) {
    if (!leads()) return absl::OkStatus();
    for (int rank = 1; rank < identity_.world_size; ++rank) {
      PartIdentity theirs = identity_;
      theirs.rank = rank;
      if (const auto part = OpenPart(temporary_, theirs); !part.ok()) {
        return absl::IsDataLoss(part.status())
                   ? NotShared(path_,
                               absl::StrCat("rank 0 does not see what rank ",
                                            rank, " wrote"),
                               part.status())
                   : NotWritten(part.status());
      }
    }
    CASTOR_RETURN_IF_ERROR(NotWritten(WriteMarker(
        temporary_, identity_.save_id, identity_.world_size, metadata)));
    // This code ensures that the parts make up the tensors: a checkpoint that
    // could not be resumed from must not take a good one's place.
    CASTOR_RETURN_IF_ERROR(
        NotWritten(CheckpointReader::Open(temporary_).status()));
    return NotWritten(directory_->Commit());
  }

  const std::string path_;
  Communicator& ranks_;
  PartIdentity identity_;
  std::string temporary_;
  std::unique_ptr<AtomicDirectory> directory_;  // rank 0's
};

}  // namespace

absl::Status SaveCheckpoint(const std::string& path,
                            const Parameters& parameters, ChunkStore& store,
                            const CheckpointMetadata& metadata,
                            Communicator* communicator) {
  if (!store.sharded()) {
    const absl::Status written =
        WriteShards(path, path, parameters, store, metadata.state.trainer.step,
                    nullptr, FormatMetadata(metadata));
    return absl::IsNotFound(written) ? NotWritten(written) : written;
  }
  CASTOR_CHECK(communicator != nullptr);
  return SharedSave(path, communicator).Run(parameters, store, metadata);
}

}  // namespace castor
