// What rank 0 finds out for all ranks. All of them call the same function; each
// blocks, and fails where its communicator does. A null communicator is one
// rank, which finds it out for itself.
#ifndef CASTOR_DEVICE_COMM_FIRST_RANK_H_
#define CASTOR_DEVICE_COMM_FIRST_RANK_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/comm/communicator.h"

namespace castor {

// Rank 0's `mine`, on all ranks; a failure of it too. `mine` of the others is
// not looked at.
absl::StatusOr<std::string> FromFirstRank(
    Communicator* communicator, absl::string_view key,
    const absl::StatusOr<std::string>& mine);

// The same of what takes rank 0 long to find: the others hear every `round_ns`
// that it is still at it, so that no time limit ends them. `find` is called in
// another thread where there are several ranks.
absl::StatusOr<std::string> FromFirstRankInItsTime(
    Communicator* communicator, absl::string_view key, int64_t round_ns,
    const std::function<absl::StatusOr<std::string>()>& find);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_FIRST_RANK_H_
