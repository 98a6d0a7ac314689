// The trace of a step that nothing ran, for measurements of plans.
#ifndef CASTOR_BENCHMARKS_DRY_TRACE_H_
#define CASTOR_BENCHMARKS_DRY_TRACE_H_

#include <cstdint>

#include "base/dtype.h"
#include "benchmarks/synthetic.h"
#include "tracer/step_trace.h"

namespace castor {

// Returns the dry pass's trace of a training step with clipping, whose
// durations are estimates, and of what each block could keep. `remade`: no
// block keeps its activations.
StepTrace DryTrace(const SyntheticRun& run, int64_t micro_batches, DType dtype,
                   bool remade);

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_DRY_TRACE_H_
