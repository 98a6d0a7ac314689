// From the operators of a step, as somebody recorded them, to its trace.
#ifndef CASTOR_RUN_PROGRAM_MAKE_STEP_TRACE_H_
#define CASTOR_RUN_PROGRAM_MAKE_STEP_TRACE_H_

#include <cstdint>
#include <vector>

#include "memory/plan/layout/chunk_layout.h"
#include "run/program/roofline.h"
#include "tracer/step_trace.h"

namespace castor {

// The trace of `ops`, with what the chunks of `layout` are (null: there are
// none) and a signature over all of it. Reduces and updates get estimated
// durations; those of the other operators are taken as they are.
StepTrace MakeStepTrace(std::vector<OpRecord> ops, const ChunkLayout* layout,
                        bool accumulate, bool training, int64_t micro_batches,
                        const Roofline& roofline);

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_MAKE_STEP_TRACE_H_
