// What a plan without addresses is expected to cost: how much is moved.
#ifndef CASTOR_MEMORY_PLAN_EXPECTED_MOVES_H_
#define CASTOR_MEMORY_PLAN_EXPECTED_MOVES_H_

#include <cstdint>
#include <optional>

#include "memory/plan/plan.h"

namespace castor {

struct ExpectedMoves {
  int64_t times = 0;  // that a block is made for which others are moved
  int64_t bytes = 0;  // that are moved for these
};

// Those of a step of the steady state whose blocks are placed as the arena does
// it (memory/exec/arena.h), if no hole were one that is waited for: where the
// arena avoids such holes, there may be more or fewer. Absent where the trace
// does not say when tensors are made and freed. `plan` must have passed
// CheckPlan for `request`. A pure function.
std::optional<ExpectedMoves> ExpectMoves(const Plan& plan,
                                         const PlanRequest& request);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_EXPECTED_MOVES_H_
