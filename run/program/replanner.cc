#include "run/program/replanner.h"

#include "base/status_macros.h"

namespace castor {

absl::StatusOr<bool> Replanner::BeforeStep(StepProgram& program) {
  if (inquiry_ != nullptr) {
    const bool ready = planner_->shared() ? all_ready_ : inquiry_->ready();
    if (!ready) return false;
    all_ready_ = false;
    CASTOR_ASSIGN_OR_RETURN(const bool over,
                            planner_->TakeAnswer(*inquiry_, *asked_of_));
    if (over) inquiry_.reset();
    return true;
  }
  if (!program.watch.due()) return false;
  if (!planner_->plans_beside()) {
    CASTOR_RETURN_IF_ERROR(planner_->PlanAgain(program));
    return true;
  }
  CASTOR_ASSIGN_OR_RETURN(inquiry_, planner_->AskAgain(program));
  asked_of_ = &program;
  all_ready_ = false;
  return true;
}

}  // namespace castor
