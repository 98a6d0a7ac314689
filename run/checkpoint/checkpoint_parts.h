// A checkpoint of several ranks: a directory with one part of each, and a
// marker that was written last and without which the rest is nothing.
//
//   step-00000100.castor/
//     rank-0-of-2.part   what rank 0 had: pieces of tensors
//     rank-1-of-2.part
//     marker.castor      no tensors; names every part, holds the metadata
//
// All of them are files as checkpoint_file.h reads them. The save's id, random
// and of this save alone, is in every part and in the marker, so that a part of
// another save is known; the marker has each part's size and seal, so that one
// that changed is.
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_PARTS_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_PARTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "run/checkpoint/checkpoint_file.h"

namespace castor {

inline constexpr absl::string_view kMarkerName = "marker.castor";

// Which part of which save a file is: a part's metadata.
struct PartIdentity {
  std::string save_id;
  int rank = 0;
  int world_size = 1;
  friend bool operator==(const PartIdentity&, const PartIdentity&) = default;
};

// "rank-1-of-4.part"
std::string PartName(int rank, int world_size);

// 128 random bits in hexadecimal.
std::string NewSaveId();

std::string FormatPartIdentity(const PartIdentity& identity);
// InvalidArgument: it is none.
absl::StatusOr<PartIdentity> ParsePartIdentity(absl::string_view json);

// A marker's metadata.
struct CheckpointMarker {
  struct Part {
    int64_t size_bytes = 0;
    uint64_t seal = 0;  // CheckpointFile::seal
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::string save_id;
  std::vector<Part> parts;  // by rank
  std::string metadata;     // of the checkpoint, JSON
  friend bool operator==(const CheckpointMarker&,
                         const CheckpointMarker&) = default;
};

// `marker.metadata` must be well-formed.
std::string FormatMarker(const CheckpointMarker& marker);
// InvalidArgument: it is none.
absl::StatusOr<CheckpointMarker> ParseMarker(absl::string_view json);

// DataLoss: it is missing, damaged, or not the part that is asked for.
absl::StatusOr<std::unique_ptr<CheckpointFile>> OpenPart(
    const std::string& directory, const PartIdentity& identity);

// Makes a directory that has all parts of the save a checkpoint. Whether they
// make up their tensors is for CheckpointReader to say. DataLoss: as OpenPart.
absl::Status WriteMarker(const std::string& directory,
                         const std::string& save_id, int world_size,
                         absl::string_view metadata_json);

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_PARTS_H_
