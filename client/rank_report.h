// The reports that ranks of a client's run send each other where they meet.
#ifndef CASTOR_CLIENT_RANK_REPORT_H_
#define CASTOR_CLIENT_RANK_REPORT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace castor {

// The call in which a rank meets the others. All of them make the same one,
// unless one aborts.
enum class RankCall : int64_t {
  kBeginTraining,
  kBeginEvaluation,
  kSetValues,
  kGetValues,
  kUse,
  kChoose,  // whether to follow
  kNarrow,  // with nothing but the use's chunks on the device
  kEndBackward,
  kUpdate,
  kEndEvaluation,
  kAbort,
  // Between steps.
  kExchange,  // of texts
  kSaveCheckpoint,
  kFindCheckpoint,
  kLoadCheckpoint,
  kBeginTrace,
  kEndTrace,
  kSetDeviceMemory
};

// Says what a rank does that makes the call: "saves a checkpoint".
absl::string_view CallName(RankCall call);

// Sent as bytes, all of which are set.
struct RankReport {
  RankCall call = RankCall::kAbort;
  int64_t what = 0;   // a hash of what must be equal on all ranks
  int64_t label = 0;  // a hash of the use's label
  int64_t name = 0;   // and of its name with its extents
  int64_t follows = 0;
  int64_t stops = 0;  // it cannot go on following
  int64_t wrote_gradients = 0;
  int64_t fits = 1;
  int64_t loose = 0;  // the store is at no plan's beginning
  int64_t ready = 0;  // its planning beside the steps is over
  // Why a rank gives up, or does not fit, and the numbers of its refusal.
  int64_t code = 0;
  int64_t peak_bytes = 0;
  int64_t resident_bytes = 0;
  int64_t smallest_device_budget_bytes = 0;
  int64_t exact = 0;
  char use[128] = {};  // or other object of the call, such as a file
  char text[768] = {};

  // Both cut texts that are too long.
  void SetUse(absl::string_view name);
  void SetText(absl::string_view words);
};

// Checks the reports `all` [rank]. FailedPrecondition: a rank makes another
// call than rank 0, or the same call about something else.
absl::Status CheckSameCalls(const std::vector<RankReport>& all);

}  // namespace castor

#endif  // CASTOR_CLIENT_RANK_REPORT_H_
