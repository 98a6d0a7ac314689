// Which plans a trainer's steps follow: made at first, from measured durations,
// for evaluations, and again when steps have settled or drifted.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/comm/agreement.h"
#include "memory/plan/addresses.h"
#include "memory/plan/offloaded_blocks.h"
#include "memory/plan/planner.h"
#include "memory/plan/speculation.h"
#include "runtime/managed/refusal_status.h"
#include "runtime/train/agree_on_measurements.h"
#include "runtime/train/trainer.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

double Seconds(const Forecast& forecast) {
  return static_cast<double>(forecast.step_ns) * 1e-9;
}

}  // namespace

absl::Status Trainer::AgreeOnMeasurements(StepTrace& trace, BusModel& bus,
                                          Overheads& overheads) {
  if (communicator_ == nullptr) return absl::OkStatus();
  return castor::AgreeOnMeasurements(*communicator_,
                                     WorkTag{.step = tag_step_}.Pack(), &trace,
                                     &bus, &overheads);
}

PlanOrRefusal Trainer::PlanOf(const PlacementPolicy* policy,
                              const PlanRequest& request) {
  PlanOrRefusal made = MakePlan(policy, request, options_.plan_mistake);
  if (const Plan* const plan = std::get_if<Plan>(&made)) {
    NotePlan(policy, *plan);
  }
  return made;
}

void Trainer::NotePlan(const PlacementPolicy* policy, const Plan& plan) {
  if (plan.instead_of_unproven.empty() ||
      std::exchange(plan_note_made_, true)) {
    return;
  }
  plan_note_ = absl::StrCat(
      "the plan of policy ", policy->name,
      " failed its proof (please report this): ", plan.instead_of_unproven,
      "; the run goes on with a slower plan, to the same results");
}

absl::Status Trainer::EnsureSlots(const StepTrace& trace) {
  if (exchange_ == nullptr) return absl::OkStatus();
  const int64_t slots = FindShardStaging(trace).slots;
  if (slots <= staging_.slots) return absl::OkStatus();
  // They come first: banks have what is left.
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    CASTOR_RETURN_IF_ERROR(store_->DropBank(ChunkId(i)));
  }
  const absl::Status room = AgreeOnStatus(
      *communicator_, "slots for another shape", exchange_->EnsureSlots(slots));
  if (!room.ok()) {
    exchange_->KeepSlots(staging_.slots);
    return room;
  }
  staging_.slots = slots;
  return absl::OkStatus();
}

absl::Status Trainer::PlanProgram(Program& program,
                                  const PlacementPolicy* policy) {
  PlanRequest request = Request(program);
  if (program.steps < options_.memory.warmup_steps) request.speculation = {};
  PlanOrRefusal made = PlanOf(policy, request);
  if (const Refusal* why = std::get_if<Refusal>(&made)) {
    return RefusalStatus(*why, options_.memory, {});
  }
  CASTOR_RETURN_IF_ERROR(EnsureSlots(program.trace));
  Follow(program, std::get<Plan>(std::move(made)), std::move(request));
  return absl::OkStatus();
}

std::optional<BlockChoice> Trainer::AskedBlocks(const Program& program) {
  BlockChoice choice;
  choice.kept = choice.offloaded = options_.offloaded_blocks;
  choice.trace = WithOffloadedBlocks(WithKeptBlocks(program.trace, choice.kept),
                                     choice.offloaded);
  const PlanRequest request =
      Request(choice.trace, program.shape, options_.memory.policy->admission);
  PlanOrRefusal made = PlanOf(options_.memory.policy, request);
  Plan* const plan = std::get_if<Plan>(&made);
  if (plan == nullptr) return std::nullopt;
  choice.plan = std::move(*plan);
  choice.cost = SimulatePlan(choice.plan, request);
  return choice;
}

BlockChoiceOrRefusal Trainer::ChooseBlocks(const Program& program) {
  if (!options_.offloaded_blocks.empty()) {
    std::optional<BlockChoice> asked = AskedBlocks(program);
    if (asked.has_value()) return *std::move(asked);
  }
  BlockChoiceOrRefusal choice = ChooseKeptBlocks(
      options_.memory.policy, program.trace,
      [&](const StepTrace& trace) {
        return Request(trace, program.shape, options_.memory.policy->admission);
      },
      program.handoffs, options_.plan_mistake);
  if (const BlockChoice* const chosen = std::get_if<BlockChoice>(&choice)) {
    NotePlan(options_.memory.policy, chosen->plan);
  }
  return choice;
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

absl::StatusOr<bool> Trainer::FollowChoice(Program& program,
                                           BlockChoice choice) {
  if (choice.trace.signature != program.trace.signature) {
    CASTOR_RETURN_IF_ERROR(Drain());
    CASTOR_ASSIGN_OR_RETURN(const bool same,
                            FindTensors(program.shape, choice));
    if (!same) return false;
    CASTOR_RETURN_IF_ERROR(EnsureSlots(choice.trace));
    program.trace = std::move(choice.trace);
  }
  PlanRequest request = Request(program);
  Follow(program, std::move(choice.plan), std::move(request));
  return true;
}

absl::Status Trainer::PlanSettled(Program& program) {
  if (ChoosesBlocks(program.trace)) {
    BlockChoiceOrRefusal choice = ChooseBlocks(program);
    if (BlockChoice* const chosen = std::get_if<BlockChoice>(&choice)) {
      CASTOR_ASSIGN_OR_RETURN(const bool followed,
                              FollowChoice(program, std::move(*chosen)));
      if (followed) return absl::OkStatus();
    }
  }
  return PlanProgram(program, options_.memory.policy);
}

void Trainer::Follow(Program& program, Plan plan, PlanRequest request) {
  plan = WithAddresses(std::move(plan), request, program.handoffs);
  program.plan = std::make_shared<const Plan>(std::move(plan));
  program.request = std::move(request);
  program.speculative = NumSpeculativeUpdates(*program.plan) > 0;
  program.forecast =
      ForecastOf(Foresee(*program.plan, program.request, program.handoffs),
                 program.request);
  TellAddresses(*program.plan, program.request, &program.forecast);
  program.plan_number = ++plans_;
  program.watch = DurationWatch(options_.watch);
  program.watch.BeginPlan(Seconds(program.forecast));
}

Plan Trainer::WithAddresses(Plan plan, const PlanRequest& request,
                            const Overheads& overheads) const {
  if (!options_.plan_addresses) return plan;
  // Addresses are those of all the plan's actions, whether updates run ahead.
  const auto foresee = [&](const Plan& made) {
    return SimulatePlan(made, request, overheads);
  };
  return castor::WithAddresses(std::move(plan), request, foresee,
                               options_.plan_mistake);
}

PlanCost Trainer::Foresee(const Plan& plan, const PlanRequest& request,
                          const Overheads& overheads) const {
  return gate_.open()
             ? SimulatePlan(plan, request, overheads)
             : SimulatePlan(WithoutSpeculation(plan), request, overheads);
}

void Trainer::WatchFinished() {
  for (FinishedStep& step : meter_.TakeFinished()) {
    for (auto& [shape, program] : programs_) {
      if (program == nullptr || program->plan_number != step.plan) continue;
      program->watch.AddDurations(std::move(step.durations),
                                  std::move(step.overheads));
      const double seconds =
          options_.step_seconds
              ? options_.step_seconds(step.step, Seconds(program->forecast))
              : step.seconds;
      if (communicator_ == nullptr) program->watch.AddStep(seconds);
      untold_ = {step.plan, seconds};
      break;
    }
  }
}

absl::Status Trainer::PlanAgain(Program& program) {
  StepTrace measured = program.trace;
  BusModel bus = bus_;
  program.watch.LatestDurations().Fill(DurationMeter::Statistic::kMedian,
                                       &measured, &bus);
  if (communicator_ != nullptr) {
    // In the warm-up, copies of shards look like those of whole payloads.
    bus.h2d_bytes_per_s = bus_.h2d_bytes_per_s;
    bus.d2h_bytes_per_s = bus_.d2h_bytes_per_s;
  }
  const int64_t moments = static_cast<int64_t>(measured.ops.size());
  Overheads overheads = program.watch.LatestOverheads(moments);
  if (options_.settled_durations) {
    options_.settled_durations(&measured, &bus);
    overheads = {};
  }
  // Each rank sends as many, whatever it has seen.
  overheads.moves.resize(moments);
  CASTOR_RETURN_IF_ERROR(AgreeOnMeasurements(measured, bus, overheads));
  bus_ = bus;
  // Work that is under way has names from the trace, so it stays where it is.
  for (size_t t = 0; t < measured.ops.size(); ++t) {
    program.trace.ops[t].duration_ns = measured.ops[t].duration_ns;
    program.trace.ops[t].host_duration_ns = measured.ops[t].host_duration_ns;
  }
  program.handoffs = overheads;
  program.handoffs.moves.clear();
  PlanRequest request = Request(program);
  const auto step_ns = [&](const Plan& plan) {
    return Foresee(plan, request, program.handoffs).step_ns;
  };
  const double now_ns = static_cast<double>(step_ns(*program.plan));
  const auto gains = [&](int64_t other_ns) {
    return now_ns - static_cast<double>(other_ns) >
           DurationWatch::kGain * now_ns;
  };
  if (ChoosesBlocks(program.trace)) {
    BlockChoiceOrRefusal choice = ChooseBlocks(program);
    BlockChoice* const chosen = std::get_if<BlockChoice>(&choice);
    if (chosen != nullptr &&
        gains(Foresee(chosen->plan,
                      Request(chosen->trace, program.shape,
                              options_.memory.policy->admission),
                      program.handoffs)
                  .step_ns)) {
      CASTOR_ASSIGN_OR_RETURN(const bool followed,
                              FollowChoice(program, std::move(*chosen)));
      if (followed) return absl::OkStatus();
    }
  } else {
    PlanOrRefusal made = PlanOf(options_.memory.policy, request);
    Plan* const plan = std::get_if<Plan>(&made);
    if (plan != nullptr && gains(step_ns(*plan))) {
      Follow(program, std::move(*plan), std::move(request));
      return absl::OkStatus();
    }
  }
  // The same decisions, with what is foreseen of them now: a trace has both.
  program.plan = std::make_shared<const Plan>(*program.plan);
  program.forecast =
      ForecastOf(Foresee(*program.plan, request, overheads), request);
  TellAddresses(*program.plan, request, &program.forecast);
  program.request = std::move(request);
  program.watch.KeepPlan(Seconds(program.forecast));
  return absl::OkStatus();
}

// Evaluation works around the optimizer states where they are; only if that
// leaves too little room do they move to the host, as far as it has room, until
// training goes on.
absl::Status Trainer::PlanEvaluation(Program& program) {
  PlanRequest request = Request(program);
  request.fixed_side.resize(layout_.num_chunks());
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    request.fixed_side[i] = store_->side(ChunkId(i));
  }
  if (program.plan != nullptr && program.plan->side == request.fixed_side) {
    return absl::OkStatus();
  }
  PlanOrRefusal made = PlanOf(options_.memory.policy, request);
  if (std::holds_alternative<Refusal>(made)) {
    CASTOR_ASSIGN_OR_RETURN(const Program* const training,
                            ProgramFor(options_.shape));
    request.fixed_side =
        SafeSides(options_.memory.policy->admission, Request(*training));
    request.fixed_side.resize(layout_.num_chunks());  // no activations
    made = PlanOf(options_.memory.policy, request);
  }
  if (const Refusal* why = std::get_if<Refusal>(&made)) {
    return RefusalStatus(*why, options_.memory, {});
  }
  Follow(program, std::get<Plan>(std::move(made)), std::move(request));
  return absl::OkStatus();
}

}  // namespace castor
