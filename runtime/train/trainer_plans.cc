// A trainer's plans, and the budgets that they are made for.
#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "device/comm/agreement.h"
#include "memory/plan/blocks/offloaded_blocks.h"
#include "memory/plan/planner/run_planner.h"
#include "run/first_budget.h"
#include "run/refusal_status.h"
#include "runtime/train/trainer.h"

namespace castor {

absl::Status Trainer::PlanEvaluation(Program& program) {
  CASTOR_ASSIGN_OR_RETURN(const Program* const training,
                          ProgramFor(options_.shape));
  return planner_.PlanEvaluation(program, training);
}

std::vector<Side> Trainer::CommonSides() {
  const auto at = programs_.find(options_.shape);
  const bool settled = at != programs_.end() && at->second->settled;
  std::vector<Side> sides = settled ? at->second->plan->side : admitted_side_;
  sides.resize(layout_.num_chunks());  // no activations
  return sides;
}

void Trainer::WatchFinished() {
  for (FinishedStep& step : meter_.TakeFinished()) {
    for (auto& [shape, program] : programs_) {
      if (program == nullptr || program->plan_number != step.plan) continue;
      program->watch.AddDurations(std::move(step.durations),
                                  std::move(step.overheads));
      const double seconds =
          planner_.StepSeconds(*program, step.step, step.seconds);
      if (communicator_ == nullptr) program->watch.AddStep(seconds);
      untold_ = {step.plan, seconds};
      break;
    }
  }
}

absl::StatusOr<bool> Trainer::FindTensors(const StepShape& shape,
                                          BlockChoice& choice) {
  engine_->set_kept_blocks(choice.kept);
  auto dry = DryRun(*engine_, *model_, shape, &layout_, accumulate(),
                    roofline(), OffloadedBlocksOf(choice.trace));
  engine_->SetBackend(backend_.get());
  CASTOR_RETURN_IF_ERROR(dry.status());
  if (dry->signature != choice.trace.signature) return false;
  choice.trace.tensors = std::move(dry->tensors);
  return true;
}

const Plan* Trainer::training_plan() const {
  const auto at = programs_.find(options_.shape);
  return at == programs_.end() ? nullptr : at->second->plan.get();
}

Forecast Trainer::training_forecast() const {
  std::vector<WeightedForecast> run;
  for (const StepShape& shape : OtherLengthsOf(options_.shape)) {
    const auto at = programs_.find(shape);
    if (at == programs_.end() || at->second->steps == 0) continue;
    run.push_back({&at->second->forecast, at->second->steps});
  }
  const auto at = programs_.find(options_.shape);
  if (at != programs_.end() && at->second->plan != nullptr) {
    if (run.empty() || at->second->steps > 0) {
      run.push_back({&at->second->forecast, at->second->steps});
    }
  }
  return run.empty() ? admission_.forecast : MeanForecast(run);
}

const StepTrace* Trainer::training_trace() const {
  const auto at = programs_.find(options_.shape);
  return at == programs_.end() ? nullptr : &at->second->trace;
}

int64_t Trainer::DeviceMemoryRequest() const {
  return options_.device_memory_request == nullptr
             ? 0
             : options_.device_memory_request->load();
}

absl::StatusOr<int64_t> Trainer::BudgetToTell() {
  if (!options_.memory.follows_device) return DeviceMemoryRequest();
  CASTOR_ASSIGN_OR_RETURN(const DeviceRoom card, device_->Room());
  return RoomFor(card, device_->memory_bytes());
}

int64_t Trainer::requested_device_memory() const {
  if (options_.memory.follows_device) return 0;
  return communicator_ == nullptr ? DeviceMemoryRequest() : memory_agreed_;
}

absl::Status Trainer::SetDeviceMemory(int64_t bytes, Refusal* refusal,
                                      BudgetAsker asker) {
  CASTOR_RETURN_IF_ERROR(CheckInitialized("another budget"));
  if (options_.memory.follows_device) {
    return absl::UnimplementedError(
        "the budget follows what the device has free (memory.device_memory "
        "\"follow\"), and is no other");
  }
  CASTOR_RETURN_IF_ERROR(Drain());
  if (communicator_ != nullptr) {
    int64_t asked[] = {bytes, -bytes};
    failure_.Update(TakeHighest(*communicator_, "another device budget",
                                /*tag=*/0, absl::MakeSpan(asked)));
    CASTOR_RETURN_IF_ERROR(failure_);
    if (asked[0] != -asked[1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("ranks ask for device budgets of ", -asked[1], " to ",
                       asked[0], " bytes: all need the same"));
    }
  }
  if (bytes < 0 || !options_.shape.training) {
    return absl::InvalidArgumentError(
        bytes < 0 ? "a device budget of negative bytes"
                  : "another device budget in a run that does not train");
  }
  return ChangeDeviceMemory(bytes, asker, refusal);
}

absl::Status Trainer::FollowDevice() {
  if (!options_.memory.follows_device) return absl::OkStatus();
  int64_t room = memory_agreed_;
  if (communicator_ == nullptr) {
    const absl::StatusOr<int64_t> own = BudgetToTell();
    failure_.Update(own.status());
    CASTOR_RETURN_IF_ERROR(failure_);
    room = *own;
  }
  if (room == 0) return absl::OkStatus();  // ranks have told nothing yet
  const int64_t floor = options_.memory.device_floor_bytes;
  const int64_t least =
      std::min(most_device_bytes_,
               std::max({floor, admission_.smallest_device_budget_bytes,
                         least_device_bytes_}));
  const std::optional<int64_t> wanted = follower_.Look(
      room, options_.memory.device_bytes, least, most_device_bytes_);
  if (wanted.has_value()) {
    CASTOR_RETURN_IF_ERROR(Drain());
    Refusal refusal;
    absl::Status changed =
        ChangeDeviceMemory(*wanted, BudgetAsker::kFollow, &refusal);
    if (absl::IsResourceExhausted(changed)) {
      // The plan takes more than the bounds say.
      const int64_t enough = refusal.smallest_device_budget_bytes;
      follower_.Refused();
      if (enough <= *wanted || enough >= kUnlimitedBytes) {
        memory_note_ = absl::StrCat("the device's memory stays as it is: ",
                                    changed.message());
        return absl::OkStatus();
      }
      least_device_bytes_ = enough;
      return absl::OkStatus();
    }
    CASTOR_RETURN_IF_ERROR(changed);
    follower_.Changed();
  }
  if (room >= least) {
    told_least_ = false;
  } else if (!std::exchange(told_least_, true)) {
    memory_note_ =
        absl::StrCat("the device's memory stays at ", FormatBytes(least), " (",
                     least, " bytes), ",
                     least == floor  ? "memory.device_memory_floor"
                     : least < floor ? "all that this run takes, which is less "
                                       "than memory.device_memory_floor"
                                     : "the least that this run takes",
                     ": others leave room for ", FormatBytes(room));
  }
  return absl::OkStatus();
}

absl::Status Trainer::ChangeDeviceMemory(int64_t bytes, BudgetAsker asker,
                                         Refusal* refusal) {
  const int64_t start_ns = device_->NowNs();
  replanner_.ForgetAll();  // earlier inquiries are for another budget
  // A device that cannot be resized says so here, before anything changes.
  CASTOR_RETURN_IF_ERROR(device_->Resize(device_->memory_bytes()));
  CASTOR_ASSIGN_OR_RETURN(Program* const training, ProgramFor(options_.shape));
  const MemoryOptions memory = options_.memory;
  const StepProgram program = *training;
  const bool settled = training->settled;
  absl::Status planned = PlanFor(bytes, *training, refusal);
  if (!planned.ok()) {
    options_.memory = memory;
    static_cast<StepProgram&>(*training) = program;
    training->settled = settled;
    if (!absl::IsResourceExhausted(planned)) {
      failure_.Update(Failed(planned));
      return failure_;
    }
    TellPause(WorkKind::kResizing, start_ns);
    return absl::ResourceExhaustedError(
        absl::StrCat(planned.message(), "; the run goes on with ",
                     FormatBytes(memory.device_bytes), " (",
                     memory.device_bytes, " bytes)"));
  }
  for (auto& [shape, other] : programs_) {
    if (other == nullptr || other.get() == training) continue;
    other->plan = nullptr;
    other->settled = false;
  }
  admitted_side_ = training->plan->side;
  predicted_peak_bytes_ = 0;
  if (options_.memory.device_bytes < memory.device_bytes) {
    absl::Status moved = backend_->Adopt(training->trace, training->plan);
    if (moved.ok()) moved = arena_->Resize(options_.memory.device_bytes);
    if (!moved.ok()) failure_.Update(Failed(moved));
    CASTOR_RETURN_IF_ERROR(failure_);
  }
  TellPause(WorkKind::kResizing, start_ns);
  if (observer_ != nullptr &&
      memory.device_bytes != admission_.device_arena_bytes) {
    observer_->OnBudget({.time_ns = device_->NowNs(),
                         .step = state_.step,
                         .from_bytes = memory.device_bytes,
                         .to_bytes = admission_.device_arena_bytes,
                         .asker = asker});
  }
  return absl::OkStatus();
}

absl::Status Trainer::PlanFor(int64_t bytes, Program& training,
                              Refusal* refusal) {
  MemoryOptions& memory = options_.memory;
  const int64_t bytes_before = memory.device_bytes;
  memory.device_bytes = bytes;
  memory.gpu_margin_mem_ratio = gpu_margin_mem_ratio_;
  const auto refuse = [&](const Refusal& why) {
    if (refusal != nullptr) *refusal = why;
    return RefusalStatus(why, memory, {});
  };
  AdmissionReport report = ReportOf(FindBudgets(training));
  std::deque<StepTrace> traces;
  const AdmissionRule& rule = memory.policy->admission;
  if (const auto step = RefuseRun(rule, RequestRun(rule, traces));
      step.has_value()) {
    return refuse(step->refusal);
  }
  if (training.steps < memory.warmup_steps) {
    CASTOR_RETURN_IF_ERROR(PlanWarmUp(training));
  } else {
    CASTOR_RETURN_IF_ERROR(planner_.PlanSettled(training, refusal));
    training.settled = true;
  }
  FillTiers(training.trace, *training.plan, training.request, layout_.states,
            accumulate(), &report);
  if (const auto why =
          MachineRefusal(memory, planner_.machine_bytes(), &report);
      why.has_value()) {
    return refuse(*why);
  }
  if (memory.device_bytes > bytes_before) {
    CASTOR_RETURN_IF_ERROR(GrowArena(memory.device_bytes));
  }
  admission_ = std::move(report);
  return absl::OkStatus();
}

absl::Status Trainer::GrowArena(int64_t bytes) {
  const int64_t bytes_before = device_->memory_bytes();
  const absl::Status grown = arena_->Resize(bytes);
  if (communicator_ == nullptr) return grown;
  const absl::Status agreed =
      AgreeOnStatus(*communicator_, "a larger device budget", grown);
  if (!agreed.ok() && grown.ok()) {
    CASTOR_RETURN_IF_ERROR(arena_->Resize(bytes_before));
  }
  return agreed;
}

}  // namespace castor
