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
#include "tracer/action_kinds.h"

namespace castor {

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
