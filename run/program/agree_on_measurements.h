// Ranks plan alike only if they plan with the same durations.
#ifndef CASTOR_RUN_PROGRAM_AGREE_ON_MEASUREMENTS_H_
#define CASTOR_RUN_PROGRAM_AGREE_ON_MEASUREMENTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "device/comm/communicator.h"
#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulator.h"
#include "tracer/step_trace.h"

namespace castor {

// All ranks' durations, speeds and overheads (null: none) become those of the
// slowest. All ranks call it, with traces of as many operators and overheads of
// as many moves; it blocks, and fails where the communicator does. `tag` is the
// collective's.
absl::Status AgreeOnMeasurements(Communicator& ranks, int64_t tag,
                                 StepTrace* trace, BusModel* bus,
                                 Overheads* overheads = nullptr);

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_AGREE_ON_MEASUREMENTS_H_
