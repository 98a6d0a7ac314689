// The two sides of the operators' one door, Op::Run (engine.h): a dry backend,
// which only counts bytes and records the trace, and the device backend, which
// carries operators out in managed memory. The engine and everything above it
// do not know which is behind.
#ifndef CASTOR_RUNTIME_BACKEND_BACKEND_H_
#define CASTOR_RUNTIME_BACKEND_BACKEND_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "device/device.h"
#include "memory/exec/arena.h"
#include "run/model/shape.h"
#include "run/program/roofline.h"
#include "runtime/backend/host_data.h"
#include "runtime/backend/storage.h"
#include "tracer/step_trace.h"

namespace castor {

// The addresses of an operator's operands, outputs and workspace. Slots are
// numbered from a base for each of the three.
class Pointers {
 public:
  static constexpr int kOutputBase = 100;
  static constexpr int kWorkspaceSlot = 200;

  // Null for a negative slot: an operand that the operator does without.
  void* operator[](int slot) const {
    if (slot < 0) return nullptr;
    if (slot == kWorkspaceSlot) return workspace;
    return slot < kOutputBase ? operands[slot] : outputs[slot - kOutputBase];
  }
  template <typename T>
  T* as(int slot) const {
    return static_cast<T*>((*this)[slot]);
  }

  absl::InlinedVector<void*, 10> operands;
  absl::InlinedVector<void*, 4> outputs;
  void* workspace = nullptr;
};

using Kernel =
    absl::AnyInvocable<absl::Status(const Pointers&, const ExecContext&)>;

// An operand is non-model storage, or a range of a chunk's payload. A range
// that is written is where a gradient goes, which need not be where the
// parameter lies: an operator that reads the values of a parameter, too, has an
// operand of its own for them.
struct Operand {
  int64_t storage_id = -1;
  ChunkId chunk = {};
  int64_t byte_offset = 0;
  bool writes = false;
  // How many of the payload's bytes a gradient takes over with this write.
  int64_t gradient_bytes = 0;
};

struct OutputRequest {
  int64_t bytes = 0;
  Category category = Category::kActivations;
};

// One operator as a backend sees it.
struct BackendOp {
  std::string name;
  Phase phase = Phase::kForward;
  CostKind cost = CostKind::kElements;
  double flops = 0;
  double bytes = 0;  // that it reads and writes on the device
  absl::InlinedVector<Operand, 10> operands;
  // Blocks made for this operator.
  absl::InlinedVector<OutputRequest, 4> outputs;
  int64_t workspace_bytes = 0;
  absl::InlinedVector<ChunkUse, 4> chunks;  // ascending, each once
  // The shapes of operands and outputs, for the trace. The operands' are
  // borrowed for the call.
  absl::Span<const Shape> operand_shapes;
  absl::InlinedVector<Shape, 4> output_shapes;
  Kernel kernel;
};

// One micro batch's gradients of a chunk are complete.
struct ChunkReduce {
  ChunkId chunk;
  std::string name;
  int64_t micro_batch = 0;
  bool last = true;  // of the step
};

struct ChunkUpdate {
  ChunkId chunk;
  std::string name;
};

// How far a block has come (Checkpoint in runtime/autograd/tape.h): one whose
// activations are not kept, then one that keeps them.
enum class BlockPoint : uint8_t {
  kForward,       // its first operator is next
  kForwardEnd,    // it has run; of what it made its output is there
  kRemake,        // backward has come to it: its first operator is next again
  kRemakeEnd,     // it has run again
  kBackward,      // what is there of it is what its backward needs
  kKept,          // its first operator is next
  kKeptEnd,       // it has run; what it made that is there is its output, and
                  // what its backward alone needs
  kKeptBackward,  // backward has come to it
};

class Backend : public StorageOwner {
 public:
  // Carries out or records the operator; gives the outputs' storages.
  virtual absl::StatusOr<absl::InlinedVector<int64_t, 4>> Run(BackendOp op) = 0;
  // An operator of the sequence that brings host data to the device; they are
  // kept until they have arrived. Gives the storage.
  virtual absl::StatusOr<int64_t> Upload(std::string name, HostData data) = 0;
  // A block beside the sequence of operators, which counts in all of them until
  // it is released: what stays from one pass to the next. Gives the storage.
  virtual absl::StatusOr<int64_t> Hold(std::string name, int64_t bytes) = 0;
  virtual absl::Status Reduce(ChunkReduce op) = 0;
  virtual absl::Status Update(ChunkUpdate op) = 0;
  // Told of the blocks; at kKeptEnd with the storage of the block's output.
  virtual absl::Status AtBlock(int64_t /*block*/, BlockPoint /*point*/,
                               int64_t /*output*/) {
    return absl::OkStatus();
  }
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_BACKEND_BACKEND_H_
