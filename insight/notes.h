// The viewer's texts about a wait or a copy, in a user's words: what happened,
// the plan's decision behind it, and what would have avoided it.
#ifndef CASTOR_INSIGHT_NOTES_H_
#define CASTOR_INSIGHT_NOTES_H_

#include <cstdint>
#include <string>

#include "insight/peers.h"
#include "insight/spans.h"
#include "insight/wait_causes.h"

namespace castor {

// One line for all waits of a cause, of a late rank those for that one, for
// tables.
std::string CauseText(const WaitFinding& finding);

// Says what would have avoided a wait of that finding under the plan (null: not
// known). `chunk`: the one that was waited for; null: any. `at_the_cpu`: it had
// left the device because its optimizer states are on the host.
std::string RemedyText(const TraceIndex& index, const WaitFinding& finding,
                       const PlanRecord* plan, int64_t program,
                       const ChunkInfo* chunk, bool at_the_cpu);

// Returns whether the plan's policy leaves all optimizer states to the host
// whatever room there is, so that the default policy could do better.
bool LeavesStatesToTheHost(const PlanRecord& plan);

// Sets the notes of all waits and copies. Equal notes are one string; beyond
// kMostNoteBytes of them, waits get the table's line alone, copies none.
inline constexpr int64_t kMostNoteBytes = 32 << 20;
void WriteNotes(const TraceIndex& index, const WaitCauses& causes,
                SpanList& list, StringTable& strings, const Peers& peers = {});

}  // namespace castor

#endif  // CASTOR_INSIGHT_NOTES_H_
