// Forecasts how many bytes a plan without addresses moves within the device's
// memory.
#ifndef CASTOR_MEMORY_PLAN_ADDRESSES_EXPECTED_MOVES_H_
#define CASTOR_MEMORY_PLAN_ADDRESSES_EXPECTED_MOVES_H_

#include <cstdint>
#include <optional>

#include "memory/plan/plan.h"

namespace castor {

struct ExpectedMoves {
  int64_t times = 0;  // blocks are made for which others move
  int64_t bytes = 0;  // moved for these
};

// Returns the moves in a step of the steady state whose blocks are placed as
// the arena places them (memory/exec/arena.h), assuming that no hole has to be
// waited for. The arena avoids holes that do, so that there may be more moves,
// or fewer. Absent where the trace does not say when tensors are made and
// freed. `plan` must have passed CheckPlan for `request`. A pure function.
std::optional<ExpectedMoves> ExpectMoves(const Plan& plan,
                                         const PlanRequest& request);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_ADDRESSES_EXPECTED_MOVES_H_
