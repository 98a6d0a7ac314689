// The traces of a run on several ranks: which files they are in, and how they
// come to lie on one clock.
//
// While the run goes on, rank 0 writes FILE and rank K writes FILE.rank-K. At
// its end the others are appended to FILE and removed. After a kill they stay;
// then they are read from where they are, as far as they can be reached.
//
// Each rank has measured how its clock lies to rank 0's when it began and,
// unless it was killed, when it ended; what lies between is taken to have
// drifted evenly.
#ifndef CASTOR_TRACER_RANK_TRACES_H_
#define CASTOR_TRACER_RANK_TRACES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tracer/trace_file.h"

namespace castor {

// The file that a rank writes.
std::string RankFileName(absl::string_view path, int64_t rank);

// All ranks' traces that can be had, by rank, their times on rank 0's clock; at
// least one. Errors as ReadTraceFile. What lies beside the file and is of
// another run is left alone.
absl::StatusOr<std::vector<TraceContents>> ReadRankTraces(
    const std::string& path);

// Moves all times of one rank's contents to rank 0's clock; none gets below 0.
// Nothing happens where no clock record is.
void MoveToCommonClock(TraceContents* contents);

}  // namespace castor

#endif  // CASTOR_TRACER_RANK_TRACES_H_
