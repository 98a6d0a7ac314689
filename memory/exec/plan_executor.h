// Carries a checked plan out, step after step.
//
// Between two plans (a new signature, an evaluation, measured durations) it
// brings chunks and optimizer states to where the next plan starts. It makes
// banks for the chunks that the plan updates before the norm is known. Banks of
// the plan before stay while the next plan updates nothing ahead (an
// evaluation), unless that plan brings states to the host or makes homes for
// activations.
//
// Blocks get the plan's addresses, if it has any. Before the first such step
// all payloads leave, the blocks that stay through all steps move to the low
// end of the arena, and the plan's initial payloads are fetched to their
// addresses (all of them, since ranks gather them together). The executor does
// not follow the addresses where others have a part of the arena (claims, a
// top, blocks that stay from one pass to the next), nor after a step in which a
// block was misplaced; blocks are then placed when work is issued, as without
// addresses.
//
// Chunks of a plan beyond those of the layout hold activations; the activation
// store carries out the actions on them.
#ifndef CASTOR_MEMORY_EXEC_PLAN_EXECUTOR_H_
#define CASTOR_MEMORY_EXEC_PLAN_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "memory/exec/activation_store.h"
#include "memory/exec/arena.h"
#include "memory/exec/chunk_store.h"
#include "memory/plan/plan.h"

namespace castor {

class PlanExecutor {
 public:
  // `store` outlives the executor.
  explicit PlanExecutor(ChunkStore* store) : store_(store) {}

  // Makes `plan` the one to follow; called between steps. First drops payloads
  // that the plan does not start with (written back if dirty), then moves
  // optimizer states to their sides, then fetches the payloads that are
  // missing. Does nothing if the plan is followed already.
  absl::Status Adopt(std::shared_ptr<const Plan> plan);
  const Plan* plan() const { return plan_.get(); }

  // Carries out ActionKind::kSpeculate. Without it that action does nothing,
  // since an update may always run as late as its kUpdate.
  using Speculate = std::function<absl::Status(ChunkId chunk)>;
  // Null if plans have no chunks of activations. Outlives the executor.
  void set_activations(ActivationStore* activations) {
    activations_ = activations;
  }
  void set_speculate(Speculate speculate) { speculate_ = std::move(speculate); }

  // True if blocks get the plan's addresses.
  bool follows_addresses() const { return follows_addresses_; }
  // Returns the planned offset of the non-model block of `bytes` that is made
  // next in the step, or Arena::kAnywhere. After a block that differs from the
  // trace's, non-model blocks get no planned offsets until the next step.
  int64_t NextNonModel(int64_t bytes);

  // Issues the plan's actions before the operator at `moment`, or those after
  // the last operator if `moment` is the number of operators. `step` goes into
  // the tags.
  absl::Status Act(Moment moment, uint16_t step);

 private:
  ChunkStore* const store_;
  absl::Status DropBanks(const Plan& next, const std::vector<bool>& wanted);
  // Moves the states that `plan` has on `side` there.
  absl::Status MoveOptimizers(const Plan& plan, Side side, bool to_places);
  int64_t NextOfActions();
  // Carry out an action; `tag` is its copy's.
  absl::Status ActOnChunk(const Action& action, WorkTag tag);
  absl::Status ActOnActivations(const Action& action, WorkTag tag);

  std::shared_ptr<const Plan> plan_;
  bool follows_addresses_ = false;
  int64_t misplaced_before_ = 0;  // the arena's count when it began to follow
  // Index of the next address of each kind in the step.
  size_t next_of_actions_ = 0;
  size_t next_non_model_ = 0;
  Speculate speculate_;
  ActivationStore* activations_ = nullptr;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_EXEC_PLAN_EXECUTOR_H_
