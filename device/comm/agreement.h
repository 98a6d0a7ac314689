// Small values on which all ranks of a group agree before they go on. All ranks
// call the same function; it blocks, and fails if the communicator does.
#ifndef CASTOR_DEVICE_COMM_AGREEMENT_H_
#define CASTOR_DEVICE_COMM_AGREEMENT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "device/comm/communicator.h"

namespace castor {

// Waits until a collective that was queued is over; returns its error, or that
// of the queueing.
absl::Status Await(Communicator& communicator,
                   const absl::StatusOr<Fence>& queued);

// Returns OK on all ranks if `status` is OK on all of them; else, on all ranks,
// the status of the lowest rank that failed, with "rank 2: " before its
// message. Unlike Communicator::Fail it leaves the group usable.
absl::Status AgreeOnStatus(Communicator& communicator, absl::string_view key,
                           const absl::Status& status);

// Sets each of `values` to the maximum over all ranks; all ranks pass the same
// number of values. `tag` is that of the collectives.
absl::Status TakeHighest(Communicator& communicator, absl::string_view key,
                         int64_t tag, absl::Span<int64_t> values);

// Sets `text` to rank `root`'s on all ranks.
absl::Status BroadcastText(Communicator& communicator, absl::string_view key,
                           int root, std::string* text);

// The last call of ranks that have all succeeded: on rank 0 it returns OK only
// if it does on all ranks. A rank may fail in a barrier that the others have
// left well, so there are two barriers: such a rank does not come to the
// second, where rank 0 then fails. The other ranks ignore a failure of the
// second barrier, since nobody else needs to know of it.
absl::Status EndTogether(Communicator& communicator, absl::string_view key);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_AGREEMENT_H_
