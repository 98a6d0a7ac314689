// Why a run was not admitted, and what was asked.
#ifndef CASTOR_RUN_REPORT_REFUSED_RUN_H_
#define CASTOR_RUN_REPORT_REFUSED_RUN_H_

#include "memory/plan/plan.h"
#include "memory/plan/planner/planner.h"
#include "tracer/step_trace.h"

namespace castor {

// A run that was not admitted.
struct RefusedRun {
  Refusal refusal;
  // The request that was refused: of training or of evaluation, whichever does
  // not fit.
  StepTrace trace;
  PlanRequest request;  // for `trace`; its pointer to it is null
};

}  // namespace castor

#endif  // CASTOR_RUN_REPORT_REFUSED_RUN_H_
