// Carries a checked plan out, step after step.
//
// Between two plans (a new signature, an evaluation, measured durations) it
// brings chunks and optimizer states from where they are to where the next plan
// starts. Banks are made for the chunks that it updates before the norm is
// known; those of the plan before stay while one is followed that updates
// nothing ahead (an evaluation), unless states come to the host in it, or homes
// of activations are made.
//
// Where the plan has addresses, its blocks get them. Before its first step all
// payloads leave, what stays through all steps moves down to the low end of the
// arena, and the payloads come again where the plan starts with them: all of
// them, as ranks gather them together. The addresses are not followed where
// others have a part of the arena (claims, a top, blocks that stay from one
// pass to the next), nor from a step on in which a block was misplaced: blocks
// are placed when work is issued then, as without addresses.
//
// A plan's chunks beyond those of the layout hold activations: what is to be
// done with them the activation store does.
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

  // Makes `plan` the one to follow; call between steps. What the plan does not
  // start with leaves first (written back if dirty), then optimizer states
  // change sides, then what is missing comes. Does nothing when the plan is
  // followed already.
  absl::Status Adopt(std::shared_ptr<const Plan> plan);
  const Plan* plan() const { return plan_.get(); }

  // What ActionKind::kSpeculate calls for; without it, it calls for nothing,
  // since updates may run as late as ever.
  using Speculate = std::function<absl::Status(ChunkId chunk)>;
  // Null: plans have no activations. Outlives the executor.
  void set_activations(ActivationStore* activations) {
    activations_ = activations;
  }
  void set_speculate(Speculate speculate) { speculate_ = std::move(speculate); }

  // Whether blocks get the plan's addresses.
  bool follows_addresses() const { return follows_addresses_; }
  // The planned place of the non-model block of `bytes` that is made next in
  // the step, or Arena::kAnywhere. A block that differs from the trace's ends
  // the following of addresses of such blocks until the next step.
  int64_t NextNonModel(int64_t bytes);

  // The actions before the operator at `moment`; `moment` = number of
  // operators: those after the last one. `step` goes into the tags.
  absl::Status Act(Moment moment, uint16_t step);

 private:
  ChunkStore* const store_;
  absl::Status DropBanks(const Plan& next, const std::vector<bool>& wanted);
  // Brings states to the sides of `plan`.
  absl::Status MoveOptimizers(const Plan& plan, Side side, bool to_places);
  int64_t NextOfActions();
  absl::Status ActOnActivations(const Action& action, WorkTag tag);

  std::shared_ptr<const Plan> plan_;
  bool follows_addresses_ = false;
  int64_t misplaced_before_ = 0;  // the arena's count when that began
  // The next address of each kind in the step.
  size_t next_of_actions_ = 0;
  size_t next_non_model_ = 0;
  Speculate speculate_;
  ActivationStore* activations_ = nullptr;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_EXEC_PLAN_EXECUTOR_H_
