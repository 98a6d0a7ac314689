// From what a client's steps were to plans, and refusals.
#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "memory/plan/planner.h"
#include "runtime/client/client_run.h"
#include "runtime/managed/refusal_status.h"
#include "runtime/train/agree_on_measurements.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

// The first step that follows a script touches memory that a recorded step
// does not, and is not measured. The next ones are, at least two and as many as
// MemoryOptions::warmup_steps says, and then plans are made with what they
// took.
constexpr int64_t kUnmeasuredSteps = 1;
constexpr int64_t kLeastMeasuredSteps = 2;

}  // namespace

PlanRequest ClientRun::Request(const StepTrace& trace) const {
  PlanRequest request =
      RequestFor(trace, options_.memory, layout_, StagingOf(trace),
                 host_reserved_bytes_, bus_);
  if (!trace.training) {
    for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
      request.fixed_side.push_back(store_->side(ChunkId(i)));
    }
  }
  return request;
}

absl::Status ClientRun::Refuse(absl::string_view use, int64_t more_bytes) {
  const bool open = arena_ != nullptr;
  const int64_t peak = open ? claimed() + more_bytes : 0;
  // Whatever else is there could be elsewhere.
  int64_t resident =
      ChunkOptimizer::DeviceBytes(layout_) + staging_.DeviceBytes();
  std::set<ChunkId> chunks;
  if (use_open_) {
    for (const ParamId id : script_->last().parameters) {
      chunks.insert(layout_.place(id).chunk);
    }
  }
  for (const ChunkId id : chunks) {
    resident += RoundUp(layout_.payload_bytes(id), kBlockAlignment);
  }
  const int64_t least = RoundUp(peak + resident, kBlockAlignment);
  refused_ = {.use = std::string(use),
              .peak_bytes = peak,
              .resident_bytes = resident,
              .smallest_device_budget_bytes = least,
              .exact = false};
  return absl::ResourceExhaustedError(
      absl::StrCat("refused: ", use, " takes ", FormatBytes(peak), " (", peak,
                   " bytes) beside ", FormatBytes(resident), " (", resident,
                   " bytes) of parameters; memory.device_memory is ",
                   FormatBytes(options_.memory.device_bytes), " (",
                   options_.memory.device_bytes, " bytes), and at least ",
                   FormatBytes(least), " (", least,
                   " bytes) would be needed, or more for what comes after it"));
}

absl::Status ClientRun::MakePlanOf(ClientProgram& program) {
  const PlanRequest request = Request(program.trace);
  PlanOrRefusal made = MakePlan(options_.memory.policy, request);
  if (const auto* const why = std::get_if<Refusal>(&made)) {
    refused_ = {
        .use = why->op,
        .peak_bytes = why->peak_bytes,
        .resident_bytes = why->resident_bytes,
        .smallest_device_budget_bytes = why->smallest_device_budget_bytes,
        .exact = true};
    return RefusalStatus(*why, options_.memory, {});
  }
  CASTOR_RETURN_IF_ERROR(EnsureSlots(program.trace));
  program.plan = std::make_shared<const Plan>(std::get<Plan>(std::move(made)));
  program.told = program.plan;
  ++stats_.plans;
  return absl::OkStatus();
}

void ClientRun::Trace(ClientProgram& program) {
  program.trace = program.script.MakeTrace(label_names_, accumulate());
  program.trace.global_norm = options_.gradient_clipping > 0;
  program.plan = nullptr;
  if (!program.script.training()) return;
  stats_.smallest_device_budget_bytes = std::max(
      stats_.smallest_device_budget_bytes,
      SmallestDeviceBudget(options_.memory.policy, Request(program.trace)));
}

// Follows the latest script that begins as the step at hand does, or records.
absl::Status ClientRun::Choose() {
  if (!shared()) {
    key_ = {script_->training(), script_->uses().front().label};
  }
  ClientProgram* const latest = programs_.Latest(key_);
  if (latest == nullptr) return Record();
  ClientProgram& program = *latest;
  if (program.plan != nullptr && !script_->training()) {
    const PlanRequest request = Request(program.trace);
    if (program.plan->side != request.fixed_side) program.plan = nullptr;
  }
  if (program.plan == nullptr && !MakePlanOf(program).ok()) return Record();
  if (shared()) {
    // What is found out here has to be found out by all.
    RankReport report = {.call = RankCall::kChoose};
    report.fits = PlanFits(*program.plan);
    std::vector<RankReport> all;
    CASTOR_RETURN_IF_ERROR(Meet(report, &all));
    for (const RankReport& rank : all) {
      if (rank.fits == 0) return Record();
    }
  }
  if (followed_ != program.plan) {
    // A plan that the store is not in the state of is adopted anew.
    program.plan = std::make_shared<const Plan>(*program.plan);
    const absl::Status adopted = executor_->Adopt(program.plan);
    if (absl::IsResourceExhausted(adopted) && !shared()) return Record();
    CASTOR_RETURN_IF_ERROR(adopted);
    followed_ = program.plan;
  }
  program_ = &program;
  if (reporter_.observed()) {
    reporter_.TellPlan(script_->training() ? steps_ + 1 : 0, program.told,
                       Request(program.trace));
  }
  return absl::OkStatus();
}

// Keeps the script of the step that was recorded, so that the next step of its
// kind is followed.
absl::Status ClientRun::KeepScript() {
  // Before anything is kept, so that other ranks' kinds of steps are these.
  CASTOR_ASSIGN_OR_RETURN(const bool alike, AgreeOnScript());
  if (!alike) return absl::OkStatus();  // it cannot be followed
  auto program = std::make_unique<ClientProgram>(*script_);
  programs_.TakePlaceOfSame(key_, program.get());
  Trace(*program);
  if (script_->training()) CASTOR_RETURN_IF_ERROR(MakePlanOf(*program));
  programs_.Keep(key_, std::move(program));
  return absl::OkStatus();
}

// What the step that was followed to its end says of those after it.
absl::Status ClientRun::LearnFromFollowed() {
  ClientProgram& program = *program_;
  CASTOR_RETURN_IF_ERROR(AgreeOnScript().status());
  const bool higher = program.script.RaisePeaks(*script_);
  const int64_t until =
      kUnmeasuredSteps +
      std::max(kLeastMeasuredSteps, options_.memory.warmup_steps);
  const bool measured = program.followed >= until;
  ++program.followed;
  if (!measured && program.followed > kUnmeasuredSteps) {
    CASTOR_RETURN_IF_ERROR(Measure(program));
  }
  const bool all = program.followed >= until;
  if (!higher && all == measured) return absl::OkStatus();
  Trace(program);
  return all ? TakeDurations(program) : absl::OkStatus();
}

// Adds what the step at hand took, for which its work has to be over.
absl::Status ClientRun::Measure(ClientProgram& program) {
  CASTOR_RETURN_IF_ERROR(Await(device_->NowAll()));
  reporter_.TakeEvents(&program.durations);
  // The client's own work is that of its uses.
  for (size_t i = 0; i < script_->uses().size(); ++i) {
    program.durations.Add(
        {.stream = static_cast<int64_t>(StreamId::kCompute),
         .kind = WorkKind::kOperator,
         .moment = program.script.MomentOf(static_cast<int64_t>(i)),
         .end_ns = script_->uses()[i].duration_ns,
         .tag = tag_step_});
  }
  return absl::OkStatus();
}

// The program's trace, which was made anew, gets what was measured.
absl::Status ClientRun::TakeDurations(ClientProgram& program) {
  BusModel bus = bus_;
  program.durations.Fill(DurationMeter::Statistic::kLeast, &program.trace,
                         &bus);
  if (shared()) {
    // Copies of shards look like those of whole payloads.
    bus.h2d_bytes_per_s = bus_.h2d_bytes_per_s;
    bus.d2h_bytes_per_s = bus_.d2h_bytes_per_s;
    CASTOR_RETURN_IF_ERROR(Told(AgreeOnMeasurements(
        *managed_.ranks(), WorkTag{.step = tag_step_}.Pack(), &program.trace,
        &bus)));
  }
  bus_ = bus;
  return absl::OkStatus();
}

// What a program did not foresee it would not foresee again, nor would those
// before it that begin alike: the next step is recorded.
void ClientRun::ForgetOutgrown() {
  if (std::exchange(outgrown_, false)) programs_.Forget(key_);
}

}  // namespace castor
