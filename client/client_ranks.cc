// The meetings of the ranks of a client's run, and what they agree on there.
// Work that has chunks gathered or gradients summed comes behind such a
// meeting, in the same order on all ranks, and cannot fail on one of them
// alone.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/client_run.h"
#include "client/client_settings.h"
#include "device/comm/agreement.h"

namespace castor {
namespace {

// Returns the refusal of rank `rank`, from its report.
ClientRun::Refused RefusedOn(size_t rank, const RankReport& report) {
  return {.use = absl::StrCat("rank ", rank, ": ", report.use),
          .peak_bytes = report.peak_bytes,
          .resident_bytes = report.resident_bytes,
          .smallest_device_budget_bytes = report.smallest_device_budget_bytes,
          .exact = report.exact != 0};
}

}  // namespace

absl::Status ClientRun::Told(absl::Status status) {
  if (status.ok() || !shared() || given_up_) return status;
  managed_.ranks()->Fail(status);
  if (meetings_ != nullptr) meetings_->Fail(status);
  const absl::Status first = managed_.ranks()->failure();
  failure_.Update(first.ok() ? status : first);
  return failure_;
}

absl::Status ClientRun::Meet(RankReport report, std::vector<RankReport>* all) {
  const int64_t start_ns = device_->NowNs();
  const absl::StatusOr<std::vector<std::string>> met = meetings_->Exchange(
      "a call of the client",
      absl::string_view(reinterpret_cast<const char*>(&report),
                        sizeof(report)));
  if (!met.ok()) return Told(met.status());
  reporter_.NoteMeeting(start_ns);
  all->assign(met->size(), RankReport());
  for (size_t r = 0; r < met->size(); ++r) {
    const std::string& bytes = (*met)[r];
    if (bytes.size() != sizeof(RankReport)) {
      return Told(absl::FailedPreconditionError(absl::StrCat(
          "rank ", r, " is a run of another version of this program")));
    }
    std::memcpy(&(*all)[r], bytes.data(), bytes.size());
  }
  if (report.call == RankCall::kAbort) return absl::OkStatus();
  for (size_t r = 0; r < all->size(); ++r) {
    const RankReport& other = (*all)[r];
    if (other.call != RankCall::kAbort) continue;
    given_up_ = in_step();
    const auto code = static_cast<absl::StatusCode>(other.code);
    outgrown_ = outgrown_ || code == absl::StatusCode::kAborted;
    refused_ = RefusedOn(r, other);
    return absl::Status(code, absl::StrCat("rank ", r, ": ", other.text));
  }
  const absl::Status same = CheckSameCalls(*all);
  if (!same.ok()) given_up_ = in_step();
  return same;
}

absl::Status ClientRun::MeetBetweenSteps(RankCall call,
                                         absl::string_view what) {
  const std::lock_guard lock(mutex_);
  // These calls load a checkpoint; with the last one ranks tell each other what
  // is in it.
  const bool mends = spoiled_ && (call == RankCall::kFindCheckpoint ||
                                  call == RankCall::kLoadCheckpoint ||
                                  call == RankCall::kExchange);
  if (!mends) CASTOR_RETURN_IF_ERROR(failure_);
  if (in_step()) {
    return absl::FailedPreconditionError(
        absl::StrCat("a run ", CallName(call),
                     " between steps, not within a step: end the step first"));
  }
  if (!shared()) return absl::OkStatus();
  RankReport report = {.call = call};
  report.what = static_cast<int64_t>(HashName(what.data(), what.size()));
  report.SetUse(what);
  std::vector<RankReport> all;
  return Meet(report, &all);
}

absl::StatusOr<std::vector<std::string>> ClientRun::Exchange(
    absl::string_view what, std::string mine) {
  CASTOR_RETURN_IF_ERROR(MeetBetweenSteps(RankCall::kExchange, what));
  const std::lock_guard lock(mutex_);
  if (!shared()) return std::vector<std::string>{std::move(mine)};
  Communicator& ranks = *managed_.ranks();
  std::vector<std::string> all(ranks.world_size());
  all[ranks.rank()] = std::move(mine);
  for (int r = 0; r < ranks.world_size(); ++r) {
    CASTOR_RETURN_IF_ERROR(
        Told(BroadcastText(ranks, "texts of the ranks", r, &all[r])));
  }
  return all;
}

bool ClientRun::EndUseFollows() const {
  if (!use_open_) return true;
  const auto index = static_cast<int64_t>(script_->uses().size()) - 1;
  const ParameterUse& expected = program_->script.uses()[index];
  return std::all_of(expected.final_gradients.begin(),
                     expected.final_gradients.end(), [&](ParamId id) {
                       return hand_ins_[id.value] >=
                              program_->script.HandIns(script_->micro_batches(),
                                                       id);
                     });
}

absl::Status ClientRun::MeetInStep(RankReport report, bool stops) {
  report.follows = following();
  report.stops = following() && stops;
  report.wrote_gradients = wrote_gradients_;
  std::vector<RankReport> all;
  CASTOR_RETURN_IF_ERROR(Meet(report, &all));
  const auto any = [&](int64_t RankReport::*flag, int64_t value) {
    return std::any_of(all.begin(), all.end(), [&](const RankReport& rank) {
      return rank.*flag == value;
    });
  };
  if (any(&RankReport::follows, 1) &&
      (any(&RankReport::follows, 0) || any(&RankReport::stops, 1))) {
    if (any(&RankReport::wrote_gradients, 1)) {
      outgrown_ = given_up_ = true;
      return MustRunAgain();
    }
    LeaveUse();  // on a GPU its chunks were held
    use_open_ = reading_ = false;
    return Told(Record());
  }
  if (following()) return absl::OkStatus();
  for (size_t r = 0; r < all.size(); ++r) {
    const RankReport& rank = all[r];
    if (rank.fits != 0) continue;
    given_up_ = true;
    refused_ = RefusedOn(r, rank);
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", r, ": ", rank.text));
  }
  return absl::OkStatus();
}

absl::Status ClientRun::AgreeOnExtents(const RankReport& report,
                                       ParameterUse* use) {
  std::vector<RankReport> all;
  CASTOR_RETURN_IF_ERROR(Meet(report, &all));
  const bool alike = std::all_of(
      all.begin(), all.end(),
      [&](const RankReport& rank) { return rank.label == report.label; });
  if (!chosen_) {
    std::string names = "ranks";
    for (const RankReport& rank : all) {
      absl::StrAppend(&names, " ", alike ? rank.label : rank.name);
    }
    key_ = {script_->training(), LabelOf(names)};
  }
  if (!alike) use->extents.clear();
  if (use->extents.empty()) return absl::OkStatus();
  return Told(TakeHighest(*managed_.ranks(), "extents of inputs",
                          WorkTag{.step = tag_step_}.Pack(),
                          absl::MakeSpan(use->extents)));
}

absl::Status ClientRun::MeetAtUse(ParameterUse* use) {
  if (!shared()) return absl::OkStatus();
  RankReport report = {.call = RankCall::kUse};
  const std::string& label = label_names_[use->label.value];
  const std::string name = NameOf(*use);
  report.SetUse(name);
  report.label = static_cast<int64_t>(HashName(label.data(), label.size()));
  report.name = static_cast<int64_t>(HashName(name.data(), name.size()));
  std::string what = absl::StrCat(static_cast<int>(use->phase));
  for (const ParamId id : use->parameters) {
    absl::StrAppend(&what, " ", id.value);
  }
  report.what = static_cast<int64_t>(HashName(what.data(), what.size()));
  if (!chosen_ || (use->parameters.empty() && use->label != end_label_)) {
    CASTOR_RETURN_IF_ERROR(AgreeOnExtents(report, use));
  }
  if (!chosen_) return absl::OkStatus();
  bool stops = false;
  if (following()) {
    const std::vector<ParameterUse>& expected = program_->script.uses();
    const size_t next = script_->uses().size();
    stops = next >= expected.size() || !expected[next].Covers(*use) ||
            !EndUseFollows() ||
            !room().ActionsFit(
                *program_->plan,
                use_open_ ? program_->script.MomentOf(next - 1).value + 1
                          : program_->script.MomentOf(next).value,
                program_->script.MomentOf(next).value + 1);
  }
  return MeetInStep(report, stops);
}

absl::Status ClientRun::MeetToNarrow(const std::vector<ParamId>& parameters) {
  if (!shared()) return absl::OkStatus();
  RankReport report = {.call = RankCall::kNarrow};
  if (!room().NarrowFits(parameters)) {
    const std::string use = NameOf(script_->last());
    report.fits = 0;
    AddFailure(Refuse(use, 0), &report);
  }
  return MeetInStep(report, /*stops=*/false);
}

absl::Status ClientRun::MeetAtEnd(RankCall call, int64_t what, int64_t begin,
                                  int64_t end) {
  if (!shared()) return absl::OkStatus();
  RankReport report = {.call = call, .what = what};
  const bool stops =
      following() &&
      (!EndUseFollows() || !room().ActionsFit(*program_->plan, begin, end));
  if (!following() && call != RankCall::kEndEvaluation && !room().SideFits()) {
    report.fits = 0;
    AddFailure(Refuse(CallName(call), 0), &report);
  }
  return MeetInStep(report, stops);
}

absl::Status ClientRun::MeetToBegin(bool training) {
  const std::string spoiled = FindSpoiled();
  if (!shared()) {
    spoiled_ = !spoiled.empty();
    if (spoiled_) failure_ = absl::OutOfRangeError(spoiled);
    return failure_;
  }
  RankReport report = {
      .call = training ? RankCall::kBeginTraining : RankCall::kBeginEvaluation,
      .loose = followed_ == nullptr,
      .ready = replanner_.ready()};
  if (training) {
    const std::string rate =
        absl::StrCat("learning rate ", RateText(expected_rate()));
    report.what = static_cast<int64_t>(HashName(rate.data(), rate.size()));
    report.SetUse(rate);
  }
  if (!spoiled.empty()) AddFailure(absl::OutOfRangeError(spoiled), &report);
  std::vector<RankReport> all;
  CASTOR_RETURN_IF_ERROR(Meet(report, &all));
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].code == 0) continue;
    spoiled_ = true;
    return failure_ = absl::OutOfRangeError(
               absl::StrCat("rank ", r, ": ", all[r].text));
  }
  replanner_.set_all_ready(
      std::all_of(all.begin(), all.end(),
                  [](const RankReport& rank) { return rank.ready != 0; }));
  for (const RankReport& rank : all) {
    if (rank.loose != 0) return Told(Record());
  }
  return absl::OkStatus();
}

absl::Status ClientRun::MeetToAbort() {
  if (!shared() || given_up_) return absl::OkStatus();
  RankReport report = {.call = RankCall::kAbort};
  AddFailure(step_failure_.ok() ? absl::CancelledError("the step was given up")
                                : step_failure_,
             &report);
  std::vector<RankReport> all;
  return Meet(report, &all);
}

void ClientRun::AddFailure(const absl::Status& why, RankReport* report) const {
  report->code = static_cast<int64_t>(why.code());
  report->SetText(std::string(why.message()));
  if (!absl::IsResourceExhausted(why)) return;
  report->SetUse(refused_.use);
  report->peak_bytes = refused_.peak_bytes;
  report->resident_bytes = refused_.resident_bytes;
  report->smallest_device_budget_bytes = refused_.smallest_device_budget_bytes;
  report->exact = refused_.exact;
}

absl::Status ClientRun::ShareValues(ParamId parameter, float* out) {
  Communicator& ranks = *managed_.ranks();
  const ChunkPlace place = layout_.place(parameter);
  const int64_t elements = layout_.parameter(parameter).elements;
  const int64_t shard = layout_.shard_elements(place.chunk);
  for (int r = 0; r < ranks.world_size(); ++r) {
    const int64_t begin =
        std::clamp<int64_t>(r * shard - place.offset, 0, elements);
    const int64_t end =
        std::clamp<int64_t>((r + 1) * shard - place.offset, 0, elements);
    if (begin == end) continue;
    CASTOR_RETURN_IF_ERROR(castor::Await(
        ranks, ranks.Broadcast("a parameter's values", 0, r, out + begin,
                               (end - begin) * sizeof(float))));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ClientRun::AgreeOnScript() {
  took_ns_ = device_->NowNs() - began_ns_;
  if (!shared()) return true;
  Communicator& ranks = *managed_.ranks();
  std::string finals;
  for (const ParameterUse& use : script_->uses()) {
    for (const ParamId id : use.final_gradients) {
      absl::StrAppend(&finals, id.value, " ");
    }
    absl::StrAppend(&finals, "|");
    for (const ChunkId id : use.complete_chunks) {
      absl::StrAppend(&finals, id.value, " ");
    }
    absl::StrAppend(&finals, ";");
  }
  const auto hash =
      static_cast<int64_t>(HashName(finals.data(), finals.size()) >> 1);
  std::vector<int64_t> values = {hash, -hash, took_ns_};
  for (const ParameterUse& use : script_->uses()) {
    values.push_back(use.peak_bytes);
    values.push_back(use.duration_ns);
  }
  CASTOR_RETURN_IF_ERROR(Told(TakeHighest(ranks, "uses of a step",
                                          WorkTag{.step = tag_step_}.Pack(),
                                          absl::MakeSpan(values))));
  script_->TakeHighest(absl::MakeSpan(values).subspan(3));
  took_ns_ = values[2];
  return values[0] == -values[1];
}

absl::StatusOr<std::vector<bool>> ClientRun::AgreeOnAbsent() {
  if (options_.zeros_for_missing_gradients) return std::vector<bool>();
  std::vector<int64_t> has;
  for (size_t i = 0; i < layout_.parameters.size(); ++i) {
    has.push_back(script_->HasGradient(ParamId(static_cast<int64_t>(i))));
  }
  if (shared()) {
    CASTOR_RETURN_IF_ERROR(Told(
        TakeHighest(*managed_.ranks(), "which gradients there are",
                    WorkTag{.step = tag_step_}.Pack(), absl::MakeSpan(has))));
  }
  std::vector<bool> absent;
  for (size_t i = 0; i < has.size(); ++i) {
    if (has[i] != 0 || !layout_.parameters[i].trainable) continue;
    absent.resize(has.size());
    absent[i] = true;
  }
  return absent;
}

bool ClientRun::PlanFits(const Plan& plan) const {
  const int64_t always_bytes = RoundUp(
      ChunkOptimizer::DeviceBytes(layout_) + planner_.staging().DeviceBytes(),
      kBlockAlignment);
  return room().PlanFits(
      plan, arena_->capacity_bytes() - claimed() - always_bytes, accumulate());
}

}  // namespace castor
