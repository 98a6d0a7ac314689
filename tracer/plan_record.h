// A plan as the trace keeps it: what was asked, decided and predicted. The
// words are memory/plan/plan.h's, which makes and reads these records
// (memory/plan/recorded_plan.h).
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
  // Home -> device. The home must be valid, the payload not resident. After it
  // the payload is resident and clean. Of activations that the operator that
  // comes makes (memory/plan/offloaded_blocks.h): nothing moves, and they are
  // dirty after that operator.
  kFetch,
  // Device -> home. The payload must be resident and dirty. After it the
  // payload is clean and the home valid. The block stays.
  kCopyBack,
  // Frees the payload's block. It must be clean.
  kDrop,
  // Takes a block for the gradients of a micro batch beside the payload, which
  // stays clean under them. No gradient may have been written in it since the
  // last reduce.
  kMakeGradients,
  // Copies that block home, for the host to add it up. Until it has, the home
  // cannot be fetched.
  kSendGradients,
  // Frees the block. It must have been sent, or added to a sum on the device.
  kDropGradients,
  // Takes a block for the sum of the chunk's gradients of this step, to which
  // the device adds them from then on. None may have been reduced in the step.
  kMakeSum,
  // Copies that sum to where the optimizer states are. All of the step's
  // gradients of the chunk must be in it.
  kSendSum,
  // Frees that block. It must have been sent.
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
  // The operator that the decision looked at: the one that needs the chunk, or
  // that the room is made for. Where it is before `moment`, the next step's.
  // Invalid where there is none.
  Moment because;

  friend bool operator==(const ActionRecord&, const ActionRecord&) = default;
};

// What the simulator expects of a step in the steady state.
struct Prediction {
  int64_t step_ns = 0;
  int64_t stall_ns = 0;  // compute waiting for copies or for the host
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
  int64_t device_peak_bytes = 0;
  int64_t host_bytes = 0;
  // Bytes to the device that no plan with the same sides can do without.
  int64_t least_h2d_bytes = 0;
  // How often blocks are moved within the device's memory to make a hole that
  // is large enough, and their bytes. Absent: not known.
  std::optional<int64_t> moves = {};
  std::optional<int64_t> moved_bytes = {};
  // Indexed by moment: when the operator starts, from the start of the step's
  // first one, never falling (of what the host runs: when the device has come
  // to it), and the device bytes in use while it runs.
  std::vector<int64_t> op_start_ns;
  std::vector<int64_t> device_bytes;

  friend bool operator==(const Prediction&, const Prediction&) = default;
};

struct PlanRecord {
  int64_t trace = 0;    // the step trace that it is for: its index in the file
  std::string policy;   // "cuda", "cpu", "auto"
  bool warmup = false;  // the careful plan that warm-up steps follow
  // There is no such plan: nothing below "Asked" has a meaning.
  bool refused = false;

  // Asked.
  int64_t device_budget_bytes = kUnlimitedBytes;
  int64_t host_budget_bytes = kUnlimitedBytes;
  int64_t device_reserved_bytes = 0;
  int64_t host_reserved_bytes = 0;
  double h2d_bytes_per_s = 0;
  double d2h_bytes_per_s = 0;
  int64_t latency_ns = 0;
  bool prefetch = true;
  double gpu_margin_mem_ratio = 1;
  bool fixed_sides = false;        // the sides were given, not chosen
  int64_t world_size = 1;          // ranks that share the chunks
  double network_bytes_per_s = 0;  // between them; 0 with one
  // The host bytes within which updates may run before the norm is known, 0:
  // none may; and in which share of the steps that was expected to be in vain.
  int64_t speculation_host_bytes = 0;
  double speculation_miss_rate = 0;

  // Decided.
  // Chunks whose optimizer states are on the device, ascending.
  std::vector<ChunkId> device_side;
  // Resident before moment 0, ascending, and those of them that are dirty.
  std::vector<ChunkId> initial;
  std::vector<ChunkId> initial_dirty;
  std::vector<ActionRecord> actions;  // in the order in which they are issued
  // Whether each block of a step has a planned address, the same in every step.
  // Absent: the trace does not say.
  std::optional<bool> planned_addresses = {};

  Prediction predicted;

  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

}  // namespace castor

#endif  // CASTOR_TRACER_PLAN_RECORD_H_
