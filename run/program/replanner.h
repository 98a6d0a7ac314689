// Plans a run's programs again while their steps go on.
//
// When a program's steps have settled, or have drifted from what was foreseen
// (duration_watch.h), the planner is asked on a thread of its own
// (plan_inquiry.h) and steps follow the plan in force. The first step after the
// thread has the answer follows that: on several ranks the first one after all
// of them have said that they have it, so that all change their plan before the
// same step. `castor train`'s ranks say it with the losses of a step, a
// client's when they meet before one.
//
// One inquiry is under way at a time. It may be about another program than that
// of the step at hand.
//
// Threads: one, which is that of the run.
#ifndef CASTOR_RUN_PROGRAM_REPLANNER_H_
#define CASTOR_RUN_PROGRAM_REPLANNER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "run/program/plan_inquiry.h"
#include "run/program/step_planner.h"
#include "run/program/step_program.h"

namespace castor {

class Replanner {
 public:
  // `planner` outlives the replanner.
  explicit Replanner(StepPlanner* planner) : planner_(planner) {}

  // Before a step of a program that follows a plan from measured durations:
  // takes an answer, or asks. Returns whether the run stood still for either;
  // where PlanningOptions::beside is false, for the planner too. Errors: those
  // of ranks that agree, and of StepPlanner::FindTensors.
  absl::StatusOr<bool> BeforeStep(StepProgram& program);

  // Returns whether this rank could go on with the plan that was asked for, to
  // tell the others.
  bool ready() const { return inquiry_ != nullptr && inquiry_->ready(); }
  // Notes whether all ranks were ready when they told each other.
  void set_all_ready(bool ready) { all_ready_ = ready; }

  // The program is to be planned in another way: what was asked about it does
  // not count any more. Waits for the thread. Returns whether there was
  // anything to wait for.
  bool Forget(const StepProgram& program) {
    if (inquiry_ == nullptr || asked_of_ != &program) return false;
    ForgetAll();
    return true;
  }
  void ForgetAll() { inquiry_.reset(); }
  // Waits until the thread is ready: tests.
  void Await() {
    if (inquiry_ != nullptr) inquiry_->Await();
  }

 private:
  StepPlanner* const planner_;
  std::unique_ptr<PlanInquiry> inquiry_;  // null: nothing is asked
  StepProgram* asked_of_ = nullptr;       // what it is about
  bool all_ready_ = false;
};

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_REPLANNER_H_
