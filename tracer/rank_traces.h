// The traces of a run on several ranks: finds their files, and converts their
// times to one clock.
//
// While the run goes on, rank 0 writes FILE and rank K writes FILE.rank-K. At
// its end the other files are appended to FILE and removed. After a kill they
// stay, and are read where they are, as far as they can be reached.
//
// Each rank has measured its clock's offset to rank 0's at its start and,
// unless it was killed, at its end; in between the drift is assumed to be
// constant.
#ifndef CASTOR_TRACER_RANK_TRACES_H_
#define CASTOR_TRACER_RANK_TRACES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tracer/trace_file.h"

namespace castor {

// Returns the file that a rank writes.
std::string RankFileName(absl::string_view path, int64_t rank);

// Returns the traces of all ranks whose files are found, by rank, with times on
// rank 0's clock; at least one. Errors as ReadTraceFile. Ignores files of other
// runs.
absl::StatusOr<std::vector<TraceContents>> ReadRankTraces(
    const std::string& path);

// Converts all times of one rank's contents to rank 0's clock; none gets below
// 0. Does nothing without a clock record.
void MoveToCommonClock(TraceContents* contents);

}  // namespace castor

#endif  // CASTOR_TRACER_RANK_TRACES_H_
