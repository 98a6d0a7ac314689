// Identifies the sequence of operators and sizes of a step.
#ifndef CASTOR_TRACER_STEP_SIGNATURE_H_
#define CASTOR_TRACER_STEP_SIGNATURE_H_

#include <string>

#include "tracer/step_trace.h"

namespace castor {

// Returns StepTrace::signature for a trace with these operators and chunks.
std::string SignatureOf(const StepTrace& trace);

}  // namespace castor

#endif  // CASTOR_TRACER_STEP_SIGNATURE_H_
