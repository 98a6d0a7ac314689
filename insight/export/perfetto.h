// A trace for Perfetto (ui.perfetto.dev) and its trace processor: Chrome's
// trace event format, JSON ("Trace Event Format", Google, 2016).
//
//   process r+1 the run, of rank r; a thread "steps", then one for each stream,
//               in order
//   X           steps, work and waits: args say step, moment, chunk, bytes, and
//               of a wait why it came and what would have avoided it
//   s, f        from the work that a wait waited for to the wait
//   C           device and host bytes by category, the plan's curve
//   i           the device's peak
//
// Times are in microseconds with three decimals, so to the nanosecond.
#ifndef CASTOR_INSIGHT_EXPORT_PERFETTO_H_
#define CASTOR_INSIGHT_EXPORT_PERFETTO_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "insight/trace_view.h"

namespace castor {

// Valid JSON for all views, one at least, of which each rank's is a process; it
// is handed to `append` in pieces of about a MiB, whose first failure ends it
// and is returned.
absl::Status PerfettoJson(
    absl::Span<const TraceView> ranks,
    absl::FunctionRef<absl::Status(absl::string_view)> append);

// Writes a file that appears whole or not at all.
absl::Status WritePerfetto(absl::Span<const TraceView> ranks,
                           const std::string& path);

}  // namespace castor

#endif  // CASTOR_INSIGHT_EXPORT_PERFETTO_H_
