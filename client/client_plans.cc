// From what a client's steps were to plans, and refusals.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/client_run.h"
#include "memory/plan/planner/planner.h"
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

absl::Status ClientRun::Refuse(absl::string_view use, int64_t more_bytes) {
  const bool open = arena_ != nullptr;
  const int64_t peak = open ? claimed() + more_bytes : 0;
  // Whatever else is there could be elsewhere.
  int64_t resident =
      ChunkOptimizer::DeviceBytes(layout_) + planner_.staging().DeviceBytes();
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

void ClientRun::NotePlanning(absl::FunctionRef<bool()> forget) {
  const int64_t start_ns = device_->NowNs();
  if (forget()) reporter_.NotePause(WorkKind::kPlanning, start_ns);
}

absl::Status ClientRun::MakePlanOf(ClientProgram& program) {
  Refusal why;
  const int64_t start_ns = device_->NowNs();
  const absl::Status made =
      program.trace.training
          ? planner_.PlanProgram(program, options_.memory.policy,
                                 program.trace.measured && !gave_other_rate_,
                                 &why)
          : planner_.PlanEvaluation(program, /*training=*/nullptr, &why);
  reporter_.NotePause(WorkKind::kPlanning, start_ns);
  if (absl::IsResourceExhausted(made) && !why.op.empty()) {
    refused_ = {
        .use = why.op,
        .peak_bytes = why.peak_bytes,
        .resident_bytes = why.resident_bytes,
        .smallest_device_budget_bytes = why.smallest_device_budget_bytes,
        .exact = true};
    return made;
  }
  return Told(made);
}

void ClientRun::Trace(ClientProgram& program) {
  const StepTrace before = std::move(program.trace);
  program.trace = program.script.MakeTrace(label_names_, accumulate());
  program.trace.global_norm = options_.needs_norm();
  program.host_bytes = host_reserved_bytes_;
  program.plan = nullptr;
  NotePlanning([&] { return replanner_.Forget(program); });
  if (before.measured) {
    program.trace.measured = true;
    for (size_t t = 0; t < before.ops.size(); ++t) {
      program.trace.ops[t].duration_ns = before.ops[t].duration_ns;
      program.trace.ops[t].host_duration_ns = before.ops[t].host_duration_ns;
    }
  }
  if (!program.script.training()) return;
  stats_.smallest_device_budget_bytes = std::max(
      stats_.smallest_device_budget_bytes,
      SmallestDeviceBudget(options_.memory.policy, planner_.Request(program)));
}

Moment ClientRun::UpdateOf(ChunkId chunk) const {
  Moment moment = program_->script.FirstUpdate();
  for (int64_t i = 0; i < chunk.value; ++i) {
    if (layout_.chunk(ChunkId(i)).trainable) ++moment.value;
  }
  return moment;
}

// Follows a script that begins as the step at hand does, or records.
absl::Status ClientRun::Choose() {
  if (!shared()) {
    key_ = {script_->training(), script_->uses().front().label};
  }
  ClientProgram* const expected =
      programs_.Expected(key_, script_->uses().front());
  if (expected == nullptr) return Record();
  ClientProgram& program = *expected;
  // An evaluation is planned around the states where they are now.
  if (!script_->training() || program.plan == nullptr) {
    if (!MakePlanOf(program).ok()) return Record();
  } else {
    const int64_t start_ns = device_->NowNs();
    CASTOR_ASSIGN_OR_RETURN(const bool paused, replanner_.BeforeStep(program));
    if (paused) reporter_.NotePause(WorkKind::kPlanning, start_ns);
  }
  if (shared()) {
    // All ranks have to learn whether the plan fits on each of them.
    RankReport report = {.call = RankCall::kChoose};
    report.fits = PlanFits(*program.plan);
    std::vector<RankReport> all;
    CASTOR_RETURN_IF_ERROR(Meet(report, &all));
    for (const RankReport& rank : all) {
      if (rank.fits == 0) return Record();
    }
  }
  if (program.adopted_of != program.plan || followed_ != program.adopted) {
    program.adopted = std::make_shared<const Plan>(*program.plan);
    program.adopted_of = program.plan;
    const absl::Status adopted = executor_->Adopt(program.adopted);
    if (absl::IsResourceExhausted(adopted) && !shared()) return Record();
    CASTOR_RETURN_IF_ERROR(adopted);
    followed_ = program.adopted;
  }
  program_ = &program;
  if (script_->training()) {
    optimizer_->SetAbsent(program.absent);
    stats_.predicted_step_ns = program.forecast.step_ns;
  }
  if (reporter_.observed()) {
    reporter_.TellPlan(script_->training() ? steps_ + 1 : 0, program.plan,
                       program.request);
  }
  return absl::OkStatus();
}

// Keeps the script of the step that was recorded, so that the next step of its
// kind is followed.
absl::Status ClientRun::KeepScript(std::vector<bool> absent) {
  // Before anything is kept, so that other ranks' kinds of steps are these.
  CASTOR_ASSIGN_OR_RETURN(const bool alike, AgreeOnScript());
  if (!alike) {  // it cannot be followed
    if (script_->training()) programs_.TookStep(0);
    return absl::OkStatus();
  }
  std::unique_ptr<ClientProgram> program = programs_.Take(key_, *script_);
  const bool known = program != nullptr;
  if (!known) program = std::make_unique<ClientProgram>(*script_);
  program->absent = std::move(absent);
  // A known one was recorded again because of memory, or because another one
  // was expected.
  if (!known || program->script.RaisePeaks(*script_)) {
    Trace(*program);
    if (script_->training()) CASTOR_RETURN_IF_ERROR(MakePlanOf(*program));
  }
  ClientProgram& kept = *program;
  NotePlanning([&] { return programs_.Keep(key_, std::move(program)); });
  if (script_->training()) programs_.TookStep(kept.number);
  return absl::OkStatus();
}

// Learns for later steps from one that was followed to its end. A step with
// smaller inputs than the program's counts, too, while the program has not been
// measured: a step of the program's own extents may never come. Afterwards a
// smaller step's time is no drift.
absl::Status ClientRun::LearnFromFollowed() {
  ClientProgram& program = *program_;
  CASTOR_RETURN_IF_ERROR(AgreeOnScript().status());
  const bool higher = program.script.RaisePeaks(*script_);
  const int64_t until =
      kUnmeasuredSteps +
      std::max(kLeastMeasuredSteps, options_.memory.warmup_steps);
  if (script_->training()) programs_.TookStep(program.number);
  ++program.followed;
  if (program.trace.measured) {
    if (!program.script.HasExtentsOf(*script_)) {
      before_.plan = 0;
    } else if (script_->training() && !stream_.has_value()) {
      Watch(program);
    }
    if (higher) Trace(program);
    return absl::OkStatus();
  }
  if (program.followed > kUnmeasuredSteps) {
    CASTOR_RETURN_IF_ERROR(Measure(program));
  }
  if (program.followed < until) {
    if (higher) Trace(program);
    return absl::OkStatus();
  }
  Trace(program);
  return TakeDurations(program);
}

void ClientRun::Watch(ClientProgram& program) {
  DurationMeter durations;
  reporter_.TakeEvents([&](const WorkRecord& work) {
    if (work.tag == tag_step_) durations.AddWithoutPause(work);
    if (before_.plan != 0 && work.tag == before_.tag) {
      before_.durations.AddWithoutPause(work);
    }
  });
  AddUses(program, &durations);
  const bool same_plan = before_.plan == program.plan_number;
  // The first step on a plan tells nothing of the rest.
  if (same_plan && before_.steady) {
    program.watch.AddDurations(std::move(before_.durations));
    program.watch.AddStep(planner_.StepSeconds(
        program, before_.step, static_cast<double>(before_.took_ns) * 1e-9));
  }
  before_ = {.plan = program.plan_number,
             .steady = same_plan,
             .tag = tag_step_,
             .step = steps_ + 1,
             .took_ns = took_ns_,
             .durations = std::move(durations)};
}

// The client's own work is that of its uses.
void ClientRun::AddUses(const ClientProgram& program,
                        DurationMeter* durations) const {
  for (size_t i = 0; i < script_->uses().size(); ++i) {
    durations->AddWithoutPause(
        {.stream = static_cast<int64_t>(StreamId::kCompute),
         .kind = WorkKind::kOperator,
         .moment = program.script.MomentOf(static_cast<int64_t>(i)),
         .end_ns = script_->uses()[i].duration_ns,
         .tag = tag_step_});
  }
}

// Adds the durations of the step at hand. Waits until its work is over.
absl::Status ClientRun::Measure(ClientProgram& program) {
  CASTOR_RETURN_IF_ERROR(Await(device_->NowAll()));
  reporter_.TakeEvents([&](const WorkRecord& work) {
    if (work.tag == tag_step_) program.durations.AddWithoutPause(work);
  });
  AddUses(program, &program.durations);
  return absl::OkStatus();
}

// The program's trace, which was made anew, gets what was measured.
absl::Status ClientRun::TakeDurations(ClientProgram& program) {
  BusModel bus = planner_.bus();
  program.durations.Fill(DurationMeter::Statistic::kLeast, &program.trace,
                         &bus);
  if (shared()) {
    // Copies of shards look like those of whole payloads.
    bus.h2d_bytes_per_s = planner_.bus().h2d_bytes_per_s;
    bus.d2h_bytes_per_s = planner_.bus().d2h_bytes_per_s;
  }
  return Told(planner_.TakeMeasurements(program, bus));
}

// A program that did not foresee the step would not foresee it the next time
// either, nor would others that the step could follow: the next step is
// recorded.
void ClientRun::ForgetOutgrown() {
  if (!std::exchange(outgrown_, false)) return;
  NotePlanning([&] { return programs_.Forget(key_, script_->uses().front()); });
}

}  // namespace castor
