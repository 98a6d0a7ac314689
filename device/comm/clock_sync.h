// Measures the offsets of the ranks' clocks, so that their traces can share one
// time axis.
//
// A rank that leaves a barrier knows that all ranks have entered it: each
// rank's time of leaving is later than any rank's time of entering. So each
// barrier bounds the difference of two clocks from both sides, and several
// bound it better:
//
//   rank 0   come_0 ........................ left_0
//   rank r             come_r ........ left_r
//   come_0 < left_r + d  and  come_r + d < left_0, where rank 0's clock is d
//   ahead of rank r's
#ifndef CASTOR_DEVICE_COMM_CLOCK_SYNC_H_
#define CASTOR_DEVICE_COMM_CLOCK_SYNC_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/comm/communicator.h"

namespace castor {

struct ClockOffset {
  // Rank 0's clock minus this rank's, and a bound on its error. Both are 0 on
  // rank 0.
  int64_t offset_ns = 0;
  int64_t error_ns = 0;
};

// Measures the offset of the clock `now`. All ranks call it, between other
// work; it blocks for a few barriers. Fails as the communicator does.
absl::StatusOr<ClockOffset> MeasureClockOffset(
    Communicator& ranks, absl::string_view key,
    absl::FunctionRef<int64_t()> now);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_CLOCK_SYNC_H_
