// At a run's end the other ranks' traces go to rank 0, over the network, since
// ranks may share no file system.
#ifndef CASTOR_RUN_REPORT_TRACE_MERGE_H_
#define CASTOR_RUN_REPORT_TRACE_MERGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "device/comm/communicator.h"

namespace castor {

// Bytes of one rank's trace on their way at a time.
inline constexpr int64_t kTracePieceBytes = int64_t{1} << 20;

// All ranks call it. Appends every other rank's file, which nobody writes any
// more, to rank 0's, `path` being the own one's. Then they are removed, unless
// something went wrong, of which every rank is told: then rank 0's file is as
// it was and all others stay. A rank whose file has no end worth having says so
// by `own` not being OK. ResourceExhausted: together they are larger than a
// trace may be. Unavailable: a file could not be read or written. Else: the
// communicator's failure.
absl::Status MergeTraceFiles(Communicator& ranks, const std::string& path,
                             const absl::Status& own);

}  // namespace castor

#endif  // CASTOR_RUN_REPORT_TRACE_MERGE_H_
