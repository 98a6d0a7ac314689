// A question to the planner that a thread of its own answers, while steps go on
// with the plan in force.
//
//   Begin           copies what the question is about: the program, with the
//                   durations that it was measured with, budgets, the bus
//   planning        on the thread; nothing of the run is touched
//   ready()         the thread has nothing to do any more. Where the answer
//                   keeps other blocks, their tensors are still to be found
//                   (missing_tensors), which takes a dry pass between two
//                   steps; then the thread goes on (GoOn, or KeepPlan if the
//                   pass came to another trace), and is ready again
//   the answer      program() has the plan to follow, or the one in force with
//                   what is foreseen of it now
//
// Plans do not decide over bits, so neither does the step before which an
// answer is taken.
//
// Threads: one, which is that of the run; work runs on one other.
#ifndef CASTOR_RUN_PROGRAM_PLAN_INQUIRY_H_
#define CASTOR_RUN_PROGRAM_PLAN_INQUIRY_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "memory/plan/blocks/block_choice.h"
#include "memory/plan/simulate/simulator.h"
#include "run/options.h"
#include "run/program/step_planner.h"
#include "run/program/step_program.h"

namespace castor {

class PlanInquiry {
 public:
  // Begins to plan. `overheads` are those of steps on the plan in force. Where
  // the system gives no thread, it has planned when the call returns.
  static std::unique_ptr<PlanInquiry> Begin(const StepPlanner& planner,
                                            const StepProgram& program,
                                            Overheads overheads);
  // Waits until the thread is ready.
  ~PlanInquiry();
  PlanInquiry(const PlanInquiry&) = delete;
  PlanInquiry& operator=(const PlanInquiry&) = delete;

  bool ready() const { return ready_.load(std::memory_order_acquire); }
  // Waits until it is.
  void Await();

  // Once it is ready. Null: the answer is complete.
  BlockChoice* missing_tensors() {
    return asks_for_tensors_ ? &*change_.choice : nullptr;
  }
  void GoOn();
  void KeepPlan();

  // The complete answer.
  StepPlanner& planner() { return *planner_; }
  StepProgram& program() { return program_; }
  bool follows_another() const { return follows_another_; }
  // Its blocks are others than those of the program that it was asked with.
  bool has_other_trace() const { return has_other_trace_; }

 private:
  PlanInquiry(const StepPlanner& planner, const StepProgram& program,
              Overheads overheads);
  void Start(std::function<void()> work);
  // On the thread.
  void Decide();
  void Finish();

  MemoryOptions memory_;
  std::unique_ptr<StepPlanner> planner_;
  StepProgram program_;
  const Overheads overheads_;
  PlanChange change_;
  bool asks_for_tensors_ = false;
  bool follows_another_ = false;
  bool has_other_trace_ = false;
  // Set by the thread, after all else.
  std::atomic<bool> ready_{true};
  std::thread thread_;
};

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_PLAN_INQUIRY_H_
