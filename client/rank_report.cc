#include "client/rank_report.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace castor {
namespace {

void Put(absl::string_view text, char* to, size_t size) {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  std::memset(to + length, 0, size - length);
}

std::string Said(const RankReport& report) {
  return report.use[0] == '\0'
             ? std::string(CallName(report.call))
             : absl::StrCat(CallName(report.call), " at \"", report.use, "\"");
}

}  // namespace

absl::string_view CallName(RankCall call) {
  switch (call) {
    case RankCall::kBeginTraining:
      return "begins a training step";
    case RankCall::kBeginEvaluation:
      return "begins an evaluation";
    case RankCall::kSetValues:
      return "gives a parameter values";
    case RankCall::kGetValues:
      return "asks for a parameter's values";
    case RankCall::kUse:
    case RankCall::kChoose:
    case RankCall::kNarrow:
      return "reads parameters";
    case RankCall::kEndBackward:
      return "ends a backward";
    case RankCall::kUpdate:
      return "updates";
    case RankCall::kEndEvaluation:
      return "ends an evaluation";
    case RankCall::kAbort:
      return "gives its step up";
    case RankCall::kExchange:
      return "exchanges texts";
    case RankCall::kSaveCheckpoint:
      return "saves a checkpoint";
    case RankCall::kFindCheckpoint:
      return "looks for a checkpoint";
    case RankCall::kLoadCheckpoint:
      return "loads a checkpoint";
    case RankCall::kBeginTrace:
      return "begins a trace";
    case RankCall::kEndTrace:
      return "ends its trace";
    case RankCall::kSetDeviceMemory:
      return "changes its device memory";
  }
  return "";
}

void RankReport::SetUse(absl::string_view name) { Put(name, use, sizeof(use)); }

void RankReport::SetText(absl::string_view words) {
  Put(words, text, sizeof(text));
}

absl::Status CheckSameCalls(const std::vector<RankReport>& all) {
  for (size_t r = 1; r < all.size(); ++r) {
    const RankReport& first = all.front();
    const RankReport& other = all[r];
    if (other.call == first.call && other.what == first.what) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "ranks differ: rank 0 ", Said(first), ", rank ", r, " ", Said(other),
        "; on several ranks each must do the same steps with the same "
        "parameters, on data of its own"));
  }
  return absl::OkStatus();
}

}  // namespace castor
