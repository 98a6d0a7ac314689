#include "run/program/step_planner.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/comm/agreement.h"
#include "device/topology/memory_limits.h"
#include "memory/plan/addresses/addresses.h"
#include "memory/plan/addresses/expected_moves.h"
#include "memory/plan/blocks/offloaded_blocks.h"
#include "memory/plan/planner/speculation.h"
#include "run/program/agree_on_measurements.h"
#include "run/program/plan_inquiry.h"
#include "run/refusal_status.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

double Seconds(const Forecast& forecast) {
  return static_cast<double>(forecast.step_ns) * 1e-9;
}

}  // namespace

void StepPlanner::Begin(const Run& run) {
  run_ = run;
  machine_bytes_ = memory().machine_share_bytes > 0
                       ? memory().machine_share_bytes
                       : PhysicalMemoryBytes();
}

absl::Status StepPlanner::Open(const ManagedMemory& managed) {
  managed_ = &managed;
  ranks_ = managed.ranks();
  if (ranks_ == nullptr) return absl::OkStatus();
  // Machines may differ, plans may not.
  int64_t least = -machine_bytes_;
  CASTOR_RETURN_IF_ERROR(Await(
      *ranks_, ranks_->AllReduce("memory of the machines", 0, ReduceOp::kMax,
                                 absl::MakeSpan(&least, 1))));
  machine_bytes_ = -least;
  return absl::OkStatus();
}

PlanRequest StepPlanner::Request(const StepTrace& trace, int64_t host_bytes,
                                 const AdmissionRule& rule) const {
  const int64_t slots = std::max(staging_.slots, FindShardStaging(trace).slots);
  ShardStaging staging = StagingFor(rule);
  staging.slots = slots;
  PlanRequest request =
      RequestFor(trace, memory(), *run_.layout, staging, host_bytes, bus_);
  if (OffloadsActivations(trace)) {
    request.host_budget_bytes = OptionalHostBytes();
  }
  request.speculation = {.host_bytes = SpeculationHostBytes(),
                         .miss_rate = gate_.miss_rate(),
                         .least_gain = options_->speculation.least_gain};
  return request;
}

PlanRequest StepPlanner::RequestOf(const StepProgram& program,
                                   const StepTrace& trace) const {
  PlanRequest request = Request(trace, program.host_bytes);
  if (program.fixed_side.empty()) return request;
  request.fixed_side = program.fixed_side;
  // Chunks of activations come last.
  request.fixed_side.resize(trace.chunks.size(), Side::kHost);
  return request;
}

ShardStaging StepPlanner::StagingFor(const AdmissionRule& rule) const {
  ShardStaging staging = staging_;
  // Where the host has all optimizer states, no sum is ever on the device.
  if (rule.sides == SideChoice::kHost) staging.parts_bytes = 0;
  return staging;
}

int64_t StepPlanner::SpeculationHostBytes() const {
  if (!options_->speculation.on || !run_.updates_wait) return 0;
  return std::max<int64_t>(0, OptionalHostBytes() - run_.returning_state_bytes);
}

int64_t StepPlanner::OptionalHostBytes() const {
  // A run that is only planned is for a machine that has the budget's bytes,
  // unless that machine's memory is known.
  if (run_.admit_only && memory().machine_share_bytes == 0 &&
      memory().host_bytes < kUnlimitedBytes) {
    return memory().host_bytes;
  }
  // The last eighth is for other programs, and the system's caches.
  const int64_t device =
      memory().device_has_own_memory ? 0 : memory().device_bytes;
  return std::clamp<int64_t>(machine_bytes_ / 8 * 7 - device, 0,
                             memory().host_bytes);
}

absl::Status StepPlanner::AgreeOnMeasurements(StepTrace& trace, BusModel& bus,
                                              Overheads& overheads) {
  if (ranks_ == nullptr) return absl::OkStatus();
  return castor::AgreeOnMeasurements(*ranks_, WorkTag{.step = tag_step_}.Pack(),
                                     &trace, &bus, &overheads);
}

absl::Status StepPlanner::TakeMeasurements(StepProgram& program, BusModel bus) {
  CASTOR_RETURN_IF_ERROR(
      AgreeOnMeasurements(program.trace, bus, program.handoffs));
  bus_ = bus;
  return absl::OkStatus();
}

double StepPlanner::StepSeconds(const StepProgram& program, int64_t step,
                                double measured_seconds) const {
  return options_->step_seconds
             ? options_->step_seconds(step, Seconds(program.forecast))
             : measured_seconds;
}

// The step that was issued last may not be over.
void StepPlanner::TellGate(const ChunkOptimizer& optimizer) {
  if (issued_ < told_ + 2) return;
  ++told_;
  gate_.AddStep(optimizer.missed_before(), ahead_[0]);
}

void StepPlanner::Issued(bool ahead) {
  ++issued_;
  ahead_ = {ahead_[1], ahead};
}

PlanOrRefusal StepPlanner::PlanOf(const PlacementPolicy* policy,
                                  const PlanRequest& request) {
  PlanOrRefusal made = MakePlan(policy, request, options_->mistake);
  if (const Plan* const plan = std::get_if<Plan>(&made)) {
    NotePlan(policy, *plan);
  }
  return made;
}

void StepPlanner::NotePlan(const PlacementPolicy* policy, const Plan& plan) {
  if (plan.instead_of_unproven.empty() || std::exchange(note_made_, true)) {
    return;
  }
  note_ = absl::StrCat(
      "the plan of policy ", policy->name,
      " failed its proof (please report this): ", plan.instead_of_unproven,
      "; the run goes on with a slower plan, to the same results");
}

absl::Status StepPlanner::EnsureSlots(const StepTrace& trace) {
  if (ranks_ == nullptr) return absl::OkStatus();
  const int64_t slots = FindShardStaging(trace).slots;
  if (slots <= staging_.slots) return absl::OkStatus();
  // They come first: banks have what is left.
  ChunkStore* const store = managed_->store();
  for (int64_t i = 0; store != nullptr && i < run_.layout->num_chunks(); ++i) {
    if (store->uncommitted(ChunkId(i))) continue;
    CASTOR_RETURN_IF_ERROR(store->DropBank(ChunkId(i)));
  }
  ShardExchange& exchange = *managed_->exchange();
  const absl::Status room = AgreeOnStatus(*ranks_, "slots for another step",
                                          exchange.EnsureSlots(slots));
  if (!room.ok()) {
    exchange.KeepSlots(staging_.slots);
    return room;
  }
  staging_.slots = slots;
  return absl::OkStatus();
}

absl::Status StepPlanner::Refused(Refusal why, Refusal* refusal) const {
  const absl::Status status = RefusalStatus(why, memory(), {});
  if (refusal != nullptr) *refusal = std::move(why);
  return status;
}

absl::Status StepPlanner::PlanWarmUp(StepProgram& program, bool speculates) {
  PlanRequest request = Request(program);
  request.host_budget_bytes = OptionalHostBytes();
  return PlanProgram(program, WarmUpPolicy(memory().policy, request),
                     speculates);
}

absl::Status StepPlanner::PlanProgram(StepProgram& program,
                                      const PlacementPolicy* policy,
                                      bool speculates, Refusal* refusal) {
  PlanRequest request = Request(program);
  if (!speculates) request.speculation = {};
  PlanOrRefusal made = PlanOf(policy, request);
  if (std::holds_alternative<Refusal>(made) && !program.fixed_side.empty()) {
    program.fixed_side.clear();
    return PlanProgram(program, policy, speculates, refusal);
  }
  if (Refusal* const why = std::get_if<Refusal>(&made)) {
    return Refused(std::move(*why), refusal);
  }
  CASTOR_RETURN_IF_ERROR(EnsureSlots(program.trace));
  Follow(program, std::get<Plan>(std::move(made)), std::move(request));
  return absl::OkStatus();
}

std::optional<BlockChoice> StepPlanner::AskedBlocks(
    const StepProgram& program) {
  BlockChoice choice;
  choice.kept = choice.offloaded = options_->offloaded_blocks;
  choice.trace = WithOffloadedBlocks(WithKeptBlocks(program.trace, choice.kept),
                                     choice.offloaded);
  const PlanRequest request = RequestOf(program, choice.trace);
  PlanOrRefusal made = PlanOf(memory().policy, request);
  Plan* const plan = std::get_if<Plan>(&made);
  if (plan == nullptr) return std::nullopt;
  choice.plan = std::move(*plan);
  choice.cost = SimulatePlan(choice.plan, request);
  return choice;
}

BlockChoiceOrRefusal StepPlanner::ChooseBlocks(const StepProgram& program) {
  if (!options_->offloaded_blocks.empty()) {
    std::optional<BlockChoice> asked = AskedBlocks(program);
    if (asked.has_value()) return *std::move(asked);
  }
  BlockChoiceOrRefusal choice = ChooseKeptBlocks(
      memory().policy, program.trace,
      [&](const StepTrace& trace) { return RequestOf(program, trace); },
      program.handoffs, options_->mistake);
  if (const BlockChoice* const chosen = std::get_if<BlockChoice>(&choice)) {
    NotePlan(memory().policy, chosen->plan);
  }
  return choice;
}

absl::StatusOr<bool> StepPlanner::FollowChoice(StepProgram& program,
                                               BlockChoice choice) {
  if (choice.trace.signature != program.trace.signature) {
    CASTOR_ASSIGN_OR_RETURN(const bool same, find_tensors_(program, choice));
    if (!same) return false;
    CASTOR_RETURN_IF_ERROR(EnsureSlots(choice.trace));
    ReplaceTrace(program, std::move(choice.trace));
  }
  PlanRequest request = Request(program);
  Follow(program, std::move(choice.plan), std::move(request));
  return true;
}

void StepPlanner::ReplaceTrace(StepProgram& program, StepTrace trace) {
  program.trace_before = std::exchange(program.trace, std::move(trace));
}

absl::Status StepPlanner::PlanSettled(StepProgram& program, Refusal* refusal) {
  if (ChoosesBlocks(program.trace)) {
    BlockChoiceOrRefusal choice = ChooseBlocks(program);
    if (BlockChoice* const chosen = std::get_if<BlockChoice>(&choice)) {
      CASTOR_ASSIGN_OR_RETURN(const bool followed,
                              FollowChoice(program, std::move(*chosen)));
      if (followed) return absl::OkStatus();
    }
  }
  return PlanProgram(program, memory().policy, /*speculates=*/true, refusal);
}

void StepPlanner::Follow(StepProgram& program, Plan plan, PlanRequest request) {
  plan = WithAddresses(std::move(plan), request, program.handoffs);
  program.plan = std::make_shared<const Plan>(std::move(plan));
  program.request = std::move(request);
  program.speculative = NumSpeculativeUpdates(*program.plan) > 0;
  program.forecast =
      ForecastOf(Foresee(*program.plan, program.request, program.handoffs),
                 program.request);
  TellAddresses(*program.plan, program.request, &program.forecast);
  BeginPlan(program);
}

void StepPlanner::BeginPlan(StepProgram& program) {
  program.plan_number = ++plans_;
  program.watch = DurationWatch(options_->watch);
  program.watch.BeginPlan(Seconds(program.forecast));
}

Plan StepPlanner::WithAddresses(Plan plan, const PlanRequest& request,
                                const Overheads& overheads) const {
  if (!options_->addresses) return plan;
  if (run_.takes_turns && request.trace->training) {
    int64_t bytes = 0;
    for (const ResidentChunk& start : plan.initial) {
      bytes += request.trace->chunks[start.chunk.value].payload_bytes;
    }
    const auto moves = ExpectMoves(plan, request);
    if (bytes > 0 && (!moves.has_value() || moves->bytes <= bytes)) return plan;
  }
  // Addresses are those of all the plan's actions, whether updates run ahead.
  const auto foresee = [&](const Plan& made) {
    return SimulatePlan(made, request, overheads);
  };
  return castor::WithAddresses(std::move(plan), request, foresee,
                               options_->mistake);
}

PlanCost StepPlanner::Foresee(const Plan& plan, const PlanRequest& request,
                              const Overheads& overheads) const {
  return gate_.open()
             ? SimulatePlan(plan, request, overheads)
             : SimulatePlan(WithoutSpeculation(plan), request, overheads);
}

absl::StatusOr<Overheads> StepPlanner::TakeLatest(StepProgram& program) {
  // Work that is under way has names from the trace, which stays where it is.
  StepTrace& trace = program.trace;
  auto [durations, meter] = program.watch.TakeLatest();
  BusModel bus = bus_;
  durations.Fill(DurationMeter::Statistic::kMedian, &trace, &bus);
  if (ranks_ != nullptr) {
    // In the warm-up, copies of shards look like those of whole payloads.
    bus.h2d_bytes_per_s = bus_.h2d_bytes_per_s;
    bus.d2h_bytes_per_s = bus_.d2h_bytes_per_s;
  }
  const int64_t moments = static_cast<int64_t>(trace.ops.size());
  Overheads overheads = meter.Take(moments);
  if (options_->settled_durations) {
    options_->settled_durations(&trace, &bus);
    overheads = {};
  }
  // Each rank sends as many, whatever it has seen.
  overheads.moves.resize(moments);
  CASTOR_RETURN_IF_ERROR(AgreeOnMeasurements(trace, bus, overheads));
  bus_ = bus;
  program.handoffs = overheads;
  program.handoffs.moves.clear();
  return overheads;
}

PlanChange StepPlanner::FindBetter(const StepProgram& program) {
  PlanRequest request = Request(program);
  const auto step_ns = [&](const Plan& plan) {
    return Foresee(plan, request, program.handoffs).step_ns;
  };
  const double now_ns = static_cast<double>(step_ns(*program.plan));
  const auto gains = [&](int64_t other_ns) {
    return now_ns - static_cast<double>(other_ns) >
           DurationWatch::kGain * now_ns;
  };
  PlanChange change;
  if (ChoosesBlocks(program.trace)) {
    BlockChoiceOrRefusal choice = ChooseBlocks(program);
    BlockChoice* const chosen = std::get_if<BlockChoice>(&choice);
    if (chosen != nullptr &&
        gains(Foresee(chosen->plan, RequestOf(program, chosen->trace),
                      program.handoffs)
                  .step_ns)) {
      change.choice = std::move(*chosen);
    }
    return change;
  }
  PlanOrRefusal made = PlanOf(memory().policy, request);
  Plan* const plan = std::get_if<Plan>(&made);
  if (plan != nullptr && gains(step_ns(*plan))) change.plan = std::move(*plan);
  return change;
}

void StepPlanner::KeepPlan(StepProgram& program, const Overheads& overheads) {
  PlanRequest request = Request(program);
  // The same decisions, with what is foreseen of them now: a trace has both.
  program.plan = std::make_shared<const Plan>(*program.plan);
  program.forecast =
      ForecastOf(Foresee(*program.plan, request, overheads), request);
  TellAddresses(*program.plan, request, &program.forecast);
  program.request = std::move(request);
  program.watch.KeepPlan(Seconds(program.forecast));
}

absl::Status StepPlanner::PlanAgain(StepProgram& program) {
  CASTOR_ASSIGN_OR_RETURN(const Overheads overheads, TakeLatest(program));
  PlanChange change = FindBetter(program);
  if (change.choice.has_value()) {
    CASTOR_ASSIGN_OR_RETURN(const bool followed,
                            FollowChoice(program, *std::move(change.choice)));
    if (followed) return absl::OkStatus();
  } else if (change.plan.has_value()) {
    FollowPlan(program, *std::move(change.plan));
    return absl::OkStatus();
  }
  KeepPlan(program, overheads);
  return absl::OkStatus();
}

std::unique_ptr<StepPlanner> StepPlanner::CopyWith(
    const MemoryOptions* memory) const {
  auto copy = std::make_unique<StepPlanner>(*this);
  copy->run_.memory = memory;
  copy->note_.clear();
  return copy;
}

absl::StatusOr<std::unique_ptr<PlanInquiry>> StepPlanner::AskAgain(
    StepProgram& program) {
  CASTOR_ASSIGN_OR_RETURN(Overheads overheads, TakeLatest(program));
  return PlanInquiry::Begin(*this, program, std::move(overheads));
}

absl::StatusOr<bool> StepPlanner::TakeAnswer(PlanInquiry& inquiry,
                                             StepProgram& program) {
  inquiry.Await();
  if (BlockChoice* const choice = inquiry.missing_tensors();
      choice != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(const bool same, find_tensors_(program, *choice));
    if (same) {
      inquiry.GoOn();
    } else {
      inquiry.KeepPlan();
    }
    return false;
  }
  StepProgram& answer = inquiry.program();
  if (inquiry.has_other_trace()) {
    // Slots for payloads may be made, and banks may go.
    if (shared()) CASTOR_RETURN_IF_ERROR(drain_());
    CASTOR_RETURN_IF_ERROR(EnsureSlots(answer.trace));
    ReplaceTrace(program, std::move(answer.trace));
  }
  program.plan = std::move(answer.plan);
  program.request = std::move(answer.request);
  program.request.trace = &program.trace;
  program.forecast = std::move(answer.forecast);
  program.speculative = answer.speculative;
  if (inquiry.follows_another()) {
    BeginPlan(program);
  } else {
    program.watch.KeepPlan(Seconds(program.forecast));
  }
  if (std::string note = inquiry.planner().TakeNote(); !note.empty()) {
    note_made_ = true;
    note_ = std::move(note);
  }
  return true;
}

absl::Status StepPlanner::PlanEvaluation(StepProgram& program,
                                         const StepProgram* training,
                                         Refusal* refusal) {
  PlanRequest request = Request(program);
  const int64_t chunks = run_.layout->num_chunks();
  request.fixed_side.resize(chunks);
  for (int64_t i = 0; i < chunks; ++i) {
    request.fixed_side[i] = managed_->store()->side(ChunkId(i));
  }
  if (program.plan != nullptr && program.plan->side == request.fixed_side) {
    return absl::OkStatus();
  }
  PlanOrRefusal made = PlanOf(memory().policy, request);
  if (std::holds_alternative<Refusal>(made) && training != nullptr) {
    request.fixed_side =
        SafeSides(memory().policy->admission, Request(*training));
    request.fixed_side.resize(chunks);  // no activations
    made = PlanOf(memory().policy, request);
  }
  if (Refusal* const why = std::get_if<Refusal>(&made)) {
    return Refused(std::move(*why), refusal);
  }
  Follow(program, std::get<Plan>(std::move(made)), std::move(request));
  return absl::OkStatus();
}

}  // namespace castor
