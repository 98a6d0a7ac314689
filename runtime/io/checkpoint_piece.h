// What lies in a checkpoint: tensors of fp32 values, or pieces of them.
#ifndef CASTOR_RUNTIME_IO_CHECKPOINT_PIECE_H_
#define CASTOR_RUNTIME_IO_CHECKPOINT_PIECE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

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

// Elements [begin, begin + elements) of a tensor that has `total`.
struct CheckpointPiece {
  std::string name;
  CheckpointKind kind = CheckpointKind::kMaster;
  int64_t begin = 0;
  int64_t elements = 0;
  int64_t total = 0;

  int64_t end() const { return begin + elements; }
  bool whole() const { return elements == total; }
};

// tensor "wte" (master)
std::string DescribeTensor(absl::string_view name, CheckpointKind kind);

// Equal for equal tensors only.
std::string TensorKey(absl::string_view name, CheckpointKind kind);

}  // namespace castor

#endif  // CASTOR_RUNTIME_IO_CHECKPOINT_PIECE_H_
