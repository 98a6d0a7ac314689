// Checks that a plan can be made for a trace.
#ifndef CASTOR_MEMORY_PLAN_CHECK_TRACE_CHECK_H_
#define CASTOR_MEMORY_PLAN_CHECK_TRACE_CHECK_H_

#include "absl/status/status.h"
#include "tracer/step_trace.h"

namespace castor {

// Returns OK, or InvalidArgument that names the moment, operator and chunk. A
// trace from a file must pass before anything is planned for it.
//
//   - sizes and durations are not negative and add up to less than
//     kUnlimitedBytes;
//   - chunk ids are in range; a kCompute operator has each chunk once, in
//     ascending order; kReduce and kUpdate have exactly one chunk, which has
//     optimizer states;
//   - no operator writes a chunk without optimizer states;
//   - only a kUpdate of a chunk that ranks share has reduced_bytes;
//   - evaluation traces have neither kReduce, kUpdate nor writes;
//   - the operators of blocks, in forward and where they run once more, are
//     ranges of the trace that do not overlap, and blocks of one number are all
//     kept or none is;
//   - a training trace updates each chunk with optimizer states exactly once,
//     after its last kReduce, and uses it in no operator between the two.
absl::Status CheckTrace(const StepTrace& trace);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_CHECK_TRACE_CHECK_H_
