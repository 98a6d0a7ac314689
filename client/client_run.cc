#include "client/client_run.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/client_settings.h"

namespace castor {

absl::Status ClientRun::Await(const Fence& fence) {
  const absl::Status over = device_->Synchronize(fence);
  failure_.Update(over);
  return Told(over);
}

absl::Status ClientRun::Noted(absl::Status status) {
  if (in_step() && !status.ok()) step_failure_ = status;
  return status;
}

WorkTag ClientRun::Tag(WorkKind kind, ChunkId chunk) const {
  return {.kind = kind, .step = tag_step_, .chunk = chunk.value};
}

LabelId ClientRun::Label(absl::string_view name) {
  const std::lock_guard lock(mutex_);
  return LabelOf(name);
}

LabelId ClientRun::LabelOf(absl::string_view name) {
  const auto [at, made] = labels_.try_emplace(
      std::string(name), LabelId(static_cast<int64_t>(label_names_.size())));
  if (made) label_names_.emplace_back(name);
  return at->second;
}

absl::Status ClientRun::CheckInStep(bool training,
                                    absl::string_view what) const {
  CASTOR_RETURN_IF_ERROR(failure_);
  if (given_up_) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, " in a step that a rank has given up: abort it"));
  }
  if (!in_step() || updating_ || (training && !script_->training())) {
    return absl::FailedPreconditionError(absl::StrCat(
        what, " outside of a ", training ? "training " : "", "step"));
  }
  return absl::OkStatus();
}

absl::Status ClientRun::CheckFilled() const {
  for (size_t i = 0; i < filled_.size(); ++i) {
    if (filled_[i]) continue;
    const ParamId id = layout_.chunk(ChunkId(i)).parameters.front();
    return absl::FailedPreconditionError(absl::StrCat(
        "parameter \"", layout_.parameter(id).name, "\" has no values"));
  }
  return absl::OkStatus();
}

absl::Status ClientRun::Begin(bool training) {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(failure_);
  if (in_step()) {
    return absl::FailedPreconditionError("a step within a step");
  }
  CASTOR_RETURN_IF_ERROR(CheckFilled());
  // A failure of an earlier step is told here at the latest, and a client on a
  // stream runs ahead of the GPU by two steps at most.
  CASTOR_RETURN_IF_ERROR(Await(step_end_before_));
  CASTOR_RETURN_IF_ERROR(MeetToBegin(training));
  step_failure_ = absl::OkStatus();
  tag_step_ = NextStepTag(tag_step_);
  arena_->set_tag(WorkTag{.step = tag_step_}.Pack());
  if (stream_.has_value()) {
    stream_->set_tag(Tag(WorkKind::kOther, ChunkId()).Pack());
  }
  planner_.set_tag(tag_step_);
  began_ns_ = device_->NowNs();
  if (training) {
    planner_.TellGate(*optimizer_);
    speculates_ = planner_.may_speculate() && !gave_other_rate_;
    begun_rate_ = expected_rate();
    optimizer_->BeginStep({.number = NextUpdate(), .lr = begun_rate_},
                          tag_step_, loss_scale(), speculates_);
  } else {
    before_.plan = 0;
  }
  script_.emplace(&layout_, training);
  reporter_.BeginStep(tag_step_);
  program_ = nullptr;
  chosen_ = use_open_ = reading_ = ending_ = false;
  ForgetMicroBatch();
  return absl::OkStatus();
}

absl::Status ClientRun::Evict(ChunkId chunk) {
  if (!store_->resident(chunk)) return absl::OkStatus();
  CASTOR_RETURN_IF_ERROR(
      store_->CopyBack(chunk, Tag(WorkKind::kCopyBack, chunk)));
  return store_->Drop(chunk);
}

absl::Status ClientRun::EvictAll() {
  // The chunks on the device are where the last plan left them.
  followed_ = nullptr;
  CASTOR_RETURN_IF_ERROR(Await(device_->NowAll()));
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    CASTOR_RETURN_IF_ERROR(Told(Evict(ChunkId(i))));
  }
  return Await(device_->NowAll());
}

absl::Status ClientRun::Narrow(const std::vector<ParamId>& parameters) {
  std::vector<bool> wanted(layout_.num_chunks(), false);
  for (const ParamId id : parameters) {
    wanted[layout_.place(id).chunk.value] = true;
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) CASTOR_RETURN_IF_ERROR(Evict(ChunkId(i)));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const ChunkId id(i);
    if (!wanted[i] || store_->resident(id)) continue;
    const absl::Status fetched = store_->Fetch(id, Tag(WorkKind::kFetch, id));
    if (absl::IsResourceExhausted(fetched)) {
      return Refuse(NameOf(script_->last()), 0);
    }
    CASTOR_RETURN_IF_ERROR(fetched);
  }
  return absl::OkStatus();
}

// Leaves as little on the device as there can be: what the use at hand reads,
// where it is, and states for which the host has no room.
absl::Status ClientRun::Record() {
  program_ = nullptr;
  followed_ = nullptr;
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    const ChunkId id(i);
    CASTOR_RETURN_IF_ERROR(
        store_->BringSumHome(id, Tag(WorkKind::kCopyBack, id)));
    store_->ForgetGradients(id);
  }
  CASTOR_RETURN_IF_ERROR(
      Narrow(reading_ ? script_->last().parameters : std::vector<ParamId>()));
  return MoveStatesToHost();
}

absl::Status ClientRun::MoveStatesToHost() {
  // Banks have what is left of the host's memory.
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    const ChunkId id(i);
    if (!store_->uncommitted(id)) CASTOR_RETURN_IF_ERROR(store_->DropBank(id));
  }
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    const absl::Status moved = store_->MoveOptimizer(ChunkId(i), Side::kHost);
    if (!moved.ok() && !absl::IsResourceExhausted(moved)) return moved;
  }
  return absl::OkStatus();
}

absl::Status ClientRun::StopFollowing() {
  if (wrote_gradients_) {
    outgrown_ = true;
    return MustRunAgain();
  }
  return Record();
}

absl::Status ClientRun::MustRunAgain() const {
  return absl::AbortedError(absl::StrCat(
      "at \"", NameOf(script_->uses().back()),
      "\" this backward does something else, or takes more memory, than "
      "after the same forward before, and gradients have taken parameters' "
      "places already; run the step again, from its first micro batch"));
}

void ClientRun::NoteUseEnd() {
  if (!use_open_) return;
  const int64_t duration_ns = reporter_.UseDurationNs();
  script_->last().duration_ns = duration_ns;
  if (following()) reporter_.TellUse(MomentOfUse(), duration_ns);
}

absl::Status ClientRun::BeginUse(ParameterUse use) {
  NoteUseEnd();
  CASTOR_RETURN_IF_ERROR(MeetAtUse(&use));
  if (use_open_) {
    CASTOR_RETURN_IF_ERROR(Told(EndUse()));
  } else {
    LeaveUse();  // what was freed since the last one is the arena's
  }
  reading_ = false;
  use.peak_bytes = RoundUp(claimed(), kBlockAlignment);
  script_->Add(std::move(use));
  use_open_ = true;
  if (!chosen_) {
    chosen_ = true;
    CASTOR_RETURN_IF_ERROR(Told(Choose()));
  }
  if (following()) CASTOR_RETURN_IF_ERROR(Told(Follow()));
  if (!following()) {
    CASTOR_RETURN_IF_ERROR(MeetToNarrow(script_->last().parameters));
    CASTOR_RETURN_IF_ERROR(Told(Narrow(script_->last().parameters)));
  }
  HoldUse();
  for (const ParamId id : script_->last().parameters) {
    CASTOR_RETURN_IF_ERROR(AwaitForUse(
        store_->WaitToUsePayload(layout_.place(id).chunk, /*writes=*/false)));
  }
  reading_ = true;
  reporter_.BeginUse();
  return absl::OkStatus();
}

void ClientRun::HoldUse() {
  if (!stream_.has_value()) return;
  std::vector<ChunkId> chunks;
  for (const ParamId id : script_->last().parameters) {
    chunks.push_back(layout_.place(id).chunk);
  }
  std::optional<int64_t> top_bytes;
  if (following()) {
    top_bytes = program_->script.uses()[script_->uses().size() - 1].peak_bytes;
  }
  stream_->HoldUse(chunks, top_bytes);
}

absl::Status ClientRun::AwaitForUse(const Fence& fence) {
  if (stream_.has_value()) {
    device_->Wait(StreamId::kCompute, fence,
                  Tag(WorkKind::kOperator, ChunkId()).Pack());
    return absl::OkStatus();
  }
  const int64_t start_ns = device_->NowNs();
  const absl::Status over = Await(fence);
  reporter_.NoteWait(
      start_ns, fence,
      following() ? std::optional<Moment>(MomentOfUse()) : std::nullopt);
  return over;
}

absl::Status ClientRun::Follow() {
  const auto index = static_cast<int64_t>(script_->uses().size()) - 1;
  const std::vector<ParameterUse>& expected = program_->script.uses();
  if (index >= static_cast<int64_t>(expected.size()) ||
      !expected[index].Covers(script_->last())) {
    return StopFollowing();
  }
  const absl::Status acted =
      executor_->Act(program_->script.MomentOf(index), tag_step_);
  return absl::IsResourceExhausted(acted) && !shared() ? StopFollowing()
                                                       : acted;
}

absl::Status ClientRun::EndUse() {
  use_open_ = reading_ = false;
  const Fence over = LeaveUse();
  // On a stream uses are timed until plans are made with what they took.
  if (stream_.has_value() && (!following() || !program_->trace.measured)) {
    CASTOR_RETURN_IF_ERROR(Await(over));
    script_->last().duration_ns = reporter_.UseDurationNs();
  }
  if (!following()) return absl::OkStatus();
  const auto index = static_cast<int64_t>(script_->uses().size()) - 1;
  const ParameterUse& expected = program_->script.uses()[index];
  for (const ParamId id : expected.final_gradients) {
    if (hand_ins_[id.value] <
        program_->script.HandIns(script_->micro_batches(), id)) {
      return StopFollowing();
    }
  }
  return CompleteChunks(expected);
}

absl::Status ClientRun::Use(LabelId label, Phase phase,
                            absl::Span<const ParamId> parameters,
                            void** addresses) {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(CheckUse(parameters));
  ParameterUse use = {.label = label,
                      .phase = phase,
                      .parameters = {parameters.begin(), parameters.end()}};
  std::sort(use.parameters.begin(), use.parameters.end());
  CASTOR_RETURN_IF_ERROR(BeginUse(std::move(use)));
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ChunkPlace place = layout_.place(parameters[i]);
    addresses[i] =
        store_->payload(place.chunk) + place.offset * SizeOf(options_.dtype);
  }
  return absl::OkStatus();
}

absl::Status ClientRun::Announce(LabelId label, Phase phase,
                                 absl::Span<const int64_t> extents) {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(CheckUse({}));
  const size_t count =
      extents_of_.try_emplace(label, extents.size()).first->second;
  if (count != extents.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", label_names_[label.value], "\" with ",
                     extents.size(), " extents, which had ", count));
  }
  return BeginUse({.label = label,
                   .phase = phase,
                   .parameters = {},
                   .extents = {extents.begin(), extents.end()}});
}

absl::Status ClientRun::CheckUse(absl::Span<const ParamId> parameters) const {
  CASTOR_RETURN_IF_ERROR(CheckInStep(/*training=*/false, "a use"));
  if (script_->training() &&
      script_->micro_batches() == options_.micro_batches &&
      !parameters.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", layout_.parameter(parameters[0]).name,
        "\" is read after the step's last backward and before its update, "
        "when gradients are in parameters' places: update first"));
  }
  return absl::OkStatus();
}

absl::Status ClientRun::Step(std::optional<double> learning_rate) {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(CheckInStep(/*training=*/true, "an update"));
  if (script_->micro_batches() != options_.micro_batches) {
    return absl::FailedPreconditionError(
        absl::StrCat("an update after ", script_->micro_batches(), " of ",
                     options_.micro_batches, " micro batches"));
  }
  if (shared()) {
    const std::string rate =
        learning_rate.has_value() ? RateText(*learning_rate) : "";
    const int64_t first =
        following() ? program_->script.FirstUpdate().value : 0;
    const int64_t end =
        following() ? static_cast<int64_t>(program_->plan->actions.size()) : 0;
    CASTOR_RETURN_IF_ERROR(MeetAtEnd(
        RankCall::kUpdate,
        static_cast<int64_t>(HashName(rate.data(), rate.size())), first, end));
  }
  if (!following()) {
    CASTOR_ASSIGN_OR_RETURN(std::vector<bool> absent, AgreeOnAbsent());
    optimizer_->SetAbsent(absent);
    const absl::Status kept = KeepScript(std::move(absent));
    // All ranks plan alike, so they are refused alike.
    given_up_ = shared() && absl::IsResourceExhausted(kept);
    CASTOR_RETURN_IF_ERROR(Told(kept));
  }
  LeaveUse();
  use_open_ = reading_ = false;
  updating_ = true;
  const absl::Status updated = Update(learning_rate);
  updating_ = false;
  if (!updated.ok()) {
    failure_.Update(updated);
    return Told(updated);
  }
  const bool ahead = following() && speculates_ && program_->speculative;
  planner_.Issued(ahead);
  if (following()) {
    CASTOR_RETURN_IF_ERROR(LearnFromFollowed());
    ++stats_.followed_steps;
  } else {
    before_.plan = 0;
    ++stats_.recorded_steps;
  }
  ++steps_;
  Fence end = device_->NowAll();
  end.Add(Mark());
  step_end_before_ = std::exchange(step_end_, end);
  reporter_.EndStep(steps_, /*warmup=*/!following());
  script_.reset();
  return SettleOutcome();
}

// The next update is numbered by it, so the client's thread waits; updates may
// still run then.
absl::Status ClientRun::SettleOutcome() {
  std::optional<ParamId> not_finite;
  if (options_.needs_norm()) {
    CASTOR_RETURN_IF_ERROR(Await(optimizer_->outcome_ready()));
    not_finite = optimizer_->outcome().not_finite;
  }
  if (!not_finite.has_value()) {
    optimizer_->CountMissed();
    return skips_->Settle(steps_, "");
  }
  ++skipped_steps_;
  return skips_->Settle(steps_, layout_.parameter(*not_finite).name);
}

std::string ClientRun::FindSpoiled() {
  if (!optimizer_->broke_before()) return "";
  device_->Synchronize(device_->NowAll()).IgnoreError();
  const std::string value = FindNotFinite(parameters_, *store_);
  return absl::StrCat(
      "after step ", steps_, ", ",
      value.empty() ? "a parameter or its states are not finite" : value,
      options_.needs_norm()
          ? ", though gradients were: an update was too large. Load a "
            "checkpoint, and lower the learning rate"
          : ". Without gradient_clipping a gradient that is not finite, or an "
            "update that is too large, cannot be undone: load a checkpoint, "
            "and set gradient_clipping, or \"on_nonfinite_undo\": true");
}

absl::Status ClientRun::Update(std::optional<double> learning_rate) {
  const double rate = learning_rate.value_or(this->learning_rate());
  gave_other_rate_ = rate != begun_rate_;
  expected_rate_.reset();
  optimizer_->ChangeRate(rate);
  Moment moment;
  if (following()) {
    moment = program_->script.FirstUpdate();
  } else {
    CASTOR_RETURN_IF_ERROR(Narrow({}));
  }
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    const ChunkId id(i);
    if (!layout_.chunk(id).trainable) continue;
    if (following()) {
      CASTOR_RETURN_IF_ERROR(executor_->Act(moment, tag_step_));
      reporter_.TellOperator(moment);
    } else if (store_->side(id) == Side::kDevice) {
      CASTOR_RETURN_IF_ERROR(store_->Fetch(id, Tag(WorkKind::kFetch, id)));
    }
    store_->HoldsParameters(id);
    CASTOR_RETURN_IF_ERROR(optimizer_->Update(id, moment));
    if (following()) {
      ++moment.value;
    } else {
      CASTOR_RETURN_IF_ERROR(Evict(id));
    }
  }
  return following() ? ActAtEnd(moment) : absl::OkStatus();
}

// Brings the store back to the plan's beginning. What the client still holds of
// the step, such as what it gave back, may be in the way: then the next step
// finds the store in another state, and adopts its plan anew. Ranks have asked
// each other before.
absl::Status ClientRun::ActAtEnd(Moment end) {
  const absl::Status acted = executor_->Act(end, tag_step_);
  if (!absl::IsResourceExhausted(acted) || shared()) return acted;
  followed_ = nullptr;
  return absl::OkStatus();
}

absl::Status ClientRun::EndEvaluation() {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(CheckInStep(/*training=*/false, "its end"));
  if (script_->training()) {
    return absl::FailedPreconditionError(
        "the end of an evaluation in a training step");
  }
  const int64_t last =
      following() ? static_cast<int64_t>(program_->trace.ops.size()) : 0;
  NoteUseEnd();
  CASTOR_RETURN_IF_ERROR(
      MeetAtEnd(RankCall::kEndEvaluation, 0, last, last + 1));
  if (use_open_) CASTOR_RETURN_IF_ERROR(Told(EndUse()));
  if (!script_->uses().empty()) {
    if (following()) {
      const auto ops = static_cast<int64_t>(program_->trace.ops.size());
      if (script_->uses().size() == program_->script.uses().size()) {
        CASTOR_RETURN_IF_ERROR(Told(ActAtEnd(Moment(ops))));
        CASTOR_RETURN_IF_ERROR(LearnFromFollowed());
      } else {
        followed_ = nullptr;
      }
    } else {
      CASTOR_RETURN_IF_ERROR(Told(KeepScript()));
    }
  }
  reporter_.TakeEvents();
  script_.reset();
  return absl::OkStatus();
}

void ClientRun::SetObserver(RunObserver* observer) {
  const std::lock_guard lock(mutex_);
  Await(device_->NowAll()).IgnoreError();  // it is in failure_
  reporter_.SetObserver(observer);
}

absl::StatusOr<double> ClientRun::GradientNorm() {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(failure_);
  CASTOR_RETURN_IF_ERROR(Await(optimizer_->outcome_ready()));
  return optimizer_->outcome().norm;
}

absl::Status ClientRun::Drain() {
  const std::lock_guard lock(mutex_);
  Mark();
  CASTOR_RETURN_IF_ERROR(Await(device_->NowAll()));
  return failure_;
}

ClientRun::Stats ClientRun::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.plans = planner_.plans();
  stats.device_peak_bytes = arena_->stats().peak_in_budget;
  stats.host_peak_bytes = host_->stats().peak_bytes;
  stats.h2d_bytes = store_->h2d_bytes();
  stats.d2h_bytes = store_->d2h_bytes();
  stats.claimed_bytes = claimed();
  return stats;
}

}  // namespace castor
