// Carries a checked plan out, step after step.
//
// Between two plans (a new signature, an evaluation, measured durations) it
// brings chunks and optimizer states from where they are to where the next plan
// starts.
#ifndef CASTOR_MEMORY_EXEC_PLAN_EXECUTOR_H_
#define CASTOR_MEMORY_EXEC_PLAN_EXECUTOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
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

  // The actions before the operator at `moment`; `moment` = number of
  // operators: those after the last one. `step` goes into the tags.
  absl::Status Act(Moment moment, uint16_t step);

 private:
  ChunkStore* const store_;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_EXEC_PLAN_EXECUTOR_H_
