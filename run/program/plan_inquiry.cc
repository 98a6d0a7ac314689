#include "run/program/plan_inquiry.h"

#include <utility>

#include "base/thread.h"

namespace castor {

PlanInquiry::PlanInquiry(const StepPlanner& planner, const StepProgram& program,
                         Overheads overheads)
    : memory_(planner.memory()),
      planner_(planner.CopyWith(&memory_)),
      program_(program),
      overheads_(std::move(overheads)) {
  program_.request.trace = &program_.trace;
}

std::unique_ptr<PlanInquiry> PlanInquiry::Begin(const StepPlanner& planner,
                                                const StepProgram& program,
                                                Overheads overheads) {
  std::unique_ptr<PlanInquiry> inquiry(
      new PlanInquiry(planner, program, std::move(overheads)));
  inquiry->Start([made = inquiry.get()] { made->Decide(); });
  return inquiry;
}

PlanInquiry::~PlanInquiry() { Await(); }

void PlanInquiry::Await() {
  if (thread_.joinable()) thread_.join();
}

void PlanInquiry::Start(std::function<void()> work) {
  Await();
  ready_.store(false, std::memory_order_relaxed);
  absl::StatusOr<std::thread> thread =
      StartBackgroundThread("plans beside the steps", [this, work] {
        work();
        ready_.store(true, std::memory_order_release);
      });
  if (thread.ok()) {
    thread_ = *std::move(thread);
    return;
  }
  work();
  ready_.store(true, std::memory_order_release);
}

void PlanInquiry::Decide() {
  change_ = planner_->FindBetter(program_);
  asks_for_tensors_ =
      change_.choice.has_value() &&
      change_.choice->trace.signature != program_.trace.signature;
  if (!asks_for_tensors_) Finish();
}

void PlanInquiry::GoOn() {
  asks_for_tensors_ = false;
  has_other_trace_ = true;
  Start([this] { Finish(); });
}

void PlanInquiry::KeepPlan() {
  asks_for_tensors_ = false;
  change_ = {};
  Start([this] { Finish(); });
}

void PlanInquiry::Finish() {
  if (has_other_trace_) program_.trace = std::move(change_.choice->trace);
  std::optional<Plan>& plan = change_.plan;
  if (change_.choice.has_value()) plan = std::move(change_.choice->plan);
  follows_another_ = plan.has_value();
  if (follows_another_) {
    planner_->FollowPlan(program_, *std::move(plan));
  } else {
    planner_->KeepPlan(program_, overheads_);
  }
}

}  // namespace castor
