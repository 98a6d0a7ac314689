// What the viewer says about a wait or a copy, in a user's words: what happened,
// the plan's decision behind it, and what would have avoided it.
#ifndef CASTOR_TRACER_ANALYSIS_NOTES_H_
#define CASTOR_TRACER_ANALYSIS_NOTES_H_

#include <cstdint>
#include <string>

#include "tracer/analysis/spans.h"
#include "tracer/analysis/wait_causes.h"

namespace castor {

// One line for all waits of a cause, for tables.
std::string CauseText(WaitCause cause);

// Whether such a wait on that stream costs time: where a stream of copies or
// the host waits for what it is to work on, nothing was lost.
bool CostsTime(const TraceIndex& index, WaitCause cause, int64_t stream);

// What would have avoided waits of the cause under the plan (null: unknown);
// `bytes`: of the chunk that was waited for, 0 where there is none.
std::string RemedyText(const TraceIndex& index, WaitCause cause,
                       int64_t stream, const PlanRecord* plan,
                       int64_t program, int64_t bytes);

// Sets the notes of all waits and copies. Equal notes are one string; beyond
// kMostNoteBytes of them, waits get the table's line alone, copies none.
inline constexpr int64_t kMostNoteBytes = 32 << 20;
void WriteNotes(const TraceIndex& index, const WaitCauses& causes,
                SpanList& list, StringTable& strings);

}  // namespace castor

#endif  // CASTOR_TRACER_ANALYSIS_NOTES_H_
