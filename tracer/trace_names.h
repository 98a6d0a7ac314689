// Names in the trace file, in the order of the enumerations' values. For the
// writer, the reader, and code that shows a collective's kind.
#ifndef CASTOR_TRACER_TRACE_NAMES_H_
#define CASTOR_TRACER_TRACE_NAMES_H_

#include "absl/strings/string_view.h"

namespace castor::trace_names {

inline constexpr char kFormat[] = "castor-trace";
inline constexpr absl::string_view kKinds[] = {"compute", "reduce", "update"};
inline constexpr absl::string_view kPhases[] = {"forward", "backward",
                                                "optimizer"};

// Who asked for another budget (BudgetAsker).
inline constexpr absl::string_view kAskers[] = {"program", "castor resize",
                                                "follow"};

// The lane on which the host thread's waits for data lie, in runs that stream
// these. No stream of a device has it.
inline constexpr absl::string_view kDataStream = "waits_for_data";

// Collectives of a group of ranks; numbers in the file.
inline constexpr absl::string_view kCollectives[] = {
    "all-gather", "all-to-all", "reduce-scatter", "all-reduce",
    "broadcast",  "barrier",    "leave"};
inline constexpr int kNumCollectives = 7;

}  // namespace castor::trace_names

#endif  // CASTOR_TRACER_TRACE_NAMES_H_
