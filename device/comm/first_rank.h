// Values that rank 0 finds for all ranks. All ranks call the same function; it
// blocks, and fails if the communicator does. A null communicator is a single
// rank, which finds the value itself.
#ifndef CASTOR_DEVICE_COMM_FIRST_RANK_H_
#define CASTOR_DEVICE_COMM_FIRST_RANK_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/comm/communicator.h"

namespace castor {

// Returns rank 0's `mine`, value or error, on all ranks. The others' `mine` is
// ignored.
absl::StatusOr<std::string> FromFirstRank(
    Communicator* communicator, absl::string_view key,
    const absl::StatusOr<std::string>& mine);

// Returns rank 0's result of `find`, which may take long: every `round_ns` rank
// 0 tells the others that it is still running, so that no time limit expires.
// With several ranks `find` is called in another thread.
absl::StatusOr<std::string> FromFirstRankInItsTime(
    Communicator* communicator, absl::string_view key, int64_t round_ns,
    const std::function<absl::StatusOr<std::string>()>& find);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_FIRST_RANK_H_
