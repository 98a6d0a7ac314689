// A plan as the trace keeps it: the request, the decisions and the prediction.
// The words are those of memory/plan/plan.h; memory/plan/replay/recorded_plan.h
// makes and reads these records.
#ifndef CASTOR_TRACER_PLAN_RECORD_H_
#define CASTOR_TRACER_PLAN_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"

namespace castor {

enum class ActionKind : uint8_t {
  // Fetch: home -> device. The home must be valid, the payload not resident.
  // After it the payload is resident and clean. For activations that the next
  // operator makes (memory/plan/blocks/offloaded_blocks.h) nothing moves, and
  // they are
  // dirty after that operator.
  kFetch,
  // Copy back: device -> home. The payload must be resident and dirty. After it
  // the payload is clean and the home valid. The block stays.
  kCopyBack,
  // Drop: frees the payload's block. The payload must be clean.
  kDrop,
  // Allocates a separate gradient block for a micro batch, so that the payload
  // stays clean. No gradient may have been written to the payload since the
  // last reduce.
  kMakeGradients,
  // Copies that block home, where the host adds the gradients up. Until it has,
  // the home cannot be fetched.
  kSendGradients,
  // Frees the gradient block, which must have been sent, or added to a device
  // sum.
  kDropGradients,
  // Allocates a device sum: a block for the sum of the chunk's gradients of
  // this step, to which the device adds them from then on. None may have been
  // reduced in the step.
  kMakeSum,
  // Copies the device sum to the optimizer states. All of the step's gradients
  // of the chunk must be in it.
  kSendSum,
  // Frees the device sum, which must have been sent.
  kDropSum,
  // The host updates the chunk before the gradients' norm is known, into its
  // bank. All of the step's gradients of the chunk must be on the host, and
  // reduced. Until its kUpdate it cannot be fetched.
  kSpeculate,
};
inline constexpr int kNumActionKinds = 10;

struct ActionRecord {
  Moment moment;  // in [0, T]; T: after the last operator
  ActionKind kind = ActionKind::kFetch;
  ChunkId chunk;
  // The reason of the action: the operator that needs the chunk, or that room
  // is made for. If it is before `moment`, it is the next step's. Invalid if
  // there is none.
  Moment because;

  friend bool operator==(const ActionRecord&, const ActionRecord&) = default;
};

// The simulator's forecast of a step in the steady state.
struct Prediction {
  int64_t step_ns = 0;
  int64_t stall_ns = 0;  // compute waiting for copies or for the host
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
  int64_t device_peak_bytes = 0;
  int64_t host_bytes = 0;
  // A lower bound on the bytes to the device of any plan with the same sides.
  int64_t least_h2d_bytes = 0;
  // Moves of blocks within the device's memory that make a hole large enough,
  // and their bytes. Absent: not known.
  std::optional<int64_t> moves = {};
  std::optional<int64_t> moved_bytes = {};
  // Indexed by moment: the start of the operator, counted from the start of the
  // step's first one, never decreasing (for work of the host the time when the
  // device has come to it); and the device bytes in use while it runs.
  std::vector<int64_t> op_start_ns;
  std::vector<int64_t> device_bytes;

  friend bool operator==(const Prediction&, const Prediction&) = default;
};

struct PlanRecord {
  int64_t trace = 0;    // index in the file of its step trace
  std::string policy;   // "cuda", "cpu", "auto"
  bool warmup = false;  // the careful plan that warm-up steps follow
  // True if the request was refused: the decisions below are meaningless then.
  bool refused = false;

  // The request.
  int64_t device_budget_bytes = kUnlimitedBytes;
  int64_t host_budget_bytes = kUnlimitedBytes;
  int64_t device_reserved_bytes = 0;
  int64_t host_reserved_bytes = 0;
  double h2d_bytes_per_s = 0;
  double d2h_bytes_per_s = 0;
  int64_t latency_ns = 0;
  bool prefetch = true;
  double gpu_margin_mem_ratio = 1;
  bool fixed_sides = false;        // sides were given, not chosen
  int64_t world_size = 1;          // ranks that share the chunks
  double network_bytes_per_s = 0;  // between them; 0 with one
  // The limit on host bytes for updates that run before the norm is known (0:
  // none may), and the expected share of steps in which they are in vain.
  int64_t speculation_host_bytes = 0;
  double speculation_miss_rate = 0;

  // The decisions. Chunks whose optimizer states are on the device, ascending.
  std::vector<ChunkId> device_side;
  // Chunks resident before moment 0, ascending, and those of them that are
  // dirty.
  std::vector<ChunkId> initial;
  std::vector<ChunkId> initial_dirty;
  std::vector<ActionRecord> actions;  // in the order in which they are issued
  // True if each block of a step has a planned address, the same in every step.
  // Absent: the trace does not say.
  std::optional<bool> planned_addresses = {};

  Prediction predicted;

  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

}  // namespace castor

#endif  // CASTOR_TRACER_PLAN_RECORD_H_
