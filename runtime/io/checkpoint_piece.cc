#include "runtime/io/checkpoint_piece.h"

#include "absl/strings/str_cat.h"
#include "base/strict_json.h"

namespace castor {

absl::string_view CheckpointKindName(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::kMaster:
      return "master";
    case CheckpointKind::kM:
      return "m";
    case CheckpointKind::kV:
      return "v";
  }
  return "unknown";
}

std::string DescribeTensor(absl::string_view name, CheckpointKind kind) {
  return absl::StrCat("tensor ", QuotedForMessage(name), " (",
                      CheckpointKindName(kind), ")");
}

std::string TensorKey(absl::string_view name, CheckpointKind kind) {
  return absl::StrCat(name, absl::string_view("\0", 1),
                      static_cast<int>(kind));
}

}  // namespace castor
