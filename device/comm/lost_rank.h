// How a rank says that another one is lost, which ends all of them.
#ifndef CASTOR_DEVICE_COMM_LOST_RANK_H_
#define CASTOR_DEVICE_COMM_LOST_RANK_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/standard_error.h"

namespace castor {

// The exit status of a rank that another's end has ended (docs/exit-status.md).
inline constexpr int kExitStatusOfLostRank = 1;

// Says `what`, and that the others end; the rank that calls it speaks for all.
inline void TellOfLostRank(absl::string_view what) {
  TellError(
      "castor",
      absl::UnavailableError(absl::StrCat(what, "; the other ranks end too")),
      kExitStatusOfLostRank);
}

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_LOST_RANK_H_
