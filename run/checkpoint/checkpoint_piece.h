// A checkpoint holds tensors, or pieces of them. Their values are fp32 to
// whoever reads or writes them. States that a run keeps in fewer bits are
// stored in as many (base/state_format.h).
//
// A tensor is a parameter (its *kind* is StatePart::kMaster), a state that the
// optimizer keeps of it, by the number of its slot, or what it keeps of its
// rows and columns, StatePart::kMargins (memory/plan/layout/state_layout.h). A
// file does not say what its states mean: the run's configuration in its
// metadata names the optimizer.
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_PIECE_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_PIECE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/state_format.h"
#include "memory/plan/layout/state_layout.h"

namespace castor {

struct CheckpointTensor {
  std::string name;
  StatePart kind = StatePart::kMaster;
  int64_t elements = 0;
};

// Elements [begin, begin + elements) of a tensor that has `total`.
struct CheckpointPiece {
  std::string name;
  StatePart kind = StatePart::kMaster;
  int64_t begin = 0;
  int64_t elements = 0;
  int64_t total = 0;
  // All values must be ones that it has. In 8 bits `begin` is a multiple of
  // kStateTile.
  StateFormat format = StateFormat::kFloat32;

  int64_t end() const { return begin + elements; }
  bool whole() const { return elements == total; }
};

// tensor "wte" (master), tensor "wte" (state 1): slot 0
std::string DescribeTensor(absl::string_view name, StatePart kind);

// Equal for equal tensors only.
std::string TensorKey(absl::string_view name, StatePart kind);

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_PIECE_H_
