// The bytes of activations that blocks of the model have on the device,
// operator by operator: what the memory curve's activations consist of, but for
// what operators use just then.
#ifndef CASTOR_INSIGHT_BLOCK_BYTES_H_
#define CASTOR_INSIGHT_BLOCK_BYTES_H_

#include <cstdint>
#include <vector>

#include "tracer/plan_record.h"
#include "tracer/step_trace.h"

namespace castor {

// By moment: what blocks that are kept have there from the end of their forward
// until backward comes to them, beyond their inputs; of blocks whose
// activations may go to the host the part that never does. Any trace is
// accepted; what is out of range counts as nothing.
std::vector<int64_t> KeptBytes(const StepTrace& trace);

// By moment: the activations that may go to the host and are on the device
// then, by the plan's actions.
std::vector<int64_t> ActivationBytes(const StepTrace& trace,
                                     const PlanRecord& plan);

}  // namespace castor

#endif  // CASTOR_INSIGHT_BLOCK_BYTES_H_
