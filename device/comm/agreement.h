// Small things that a group of ranks must know alike, before any of them goes
// on. All ranks call the same function; each blocks, and fails where its
// communicator does.
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

// Waits until a collective that was queued is over; or why it was not.
absl::Status Await(Communicator& communicator,
                   const absl::StatusOr<Fence>& queued);

// `status` of each rank: OK on all ranks if it is on all of them, else, on all
// ranks, that of the lowest one that failed, with "rank 2: " before its
// message. Unlike Communicator::Fail it leaves the group in order.
absl::Status AgreeOnStatus(Communicator& communicator, absl::string_view key,
                           const absl::Status& status);

// Each of `values` becomes the highest that a rank has in its place; all ranks
// have as many. `tag` is the collectives'.
absl::Status TakeHighest(Communicator& communicator, absl::string_view key,
                         int64_t tag, absl::Span<int64_t> values);

// `text` becomes rank `root`'s.
absl::Status BroadcastText(Communicator& communicator, absl::string_view key,
                           int root, std::string* text);

// The last that ranks do which have all succeeded: on rank 0 it is OK only if
// it is on all. A rank may fail in a meeting from which the others have come
// out well, so they meet a second time: to that such a rank does not come, and
// rank 0 fails there. The others have nobody left whom a failure of the second
// meeting concerns, and pass over it.
absl::Status EndTogether(Communicator& communicator, absl::string_view key);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_AGREEMENT_H_
