// The texts about each cause of a wait: they stand here alone, a row a cause.
// notes.h puts names and figures in.
#ifndef CASTOR_INSIGHT_CAUSE_TEXTS_H_
#define CASTOR_INSIGHT_CAUSE_TEXTS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "insight/wait_causes.h"

namespace castor {

// Says when the plan's decision about the awaited fetch is told as well.
enum class TellsDecision : uint8_t {
  kNever,
  kForFetches,  // where compute waited for a fetch that was held up further
                // back
  kAlways,
};

// Words in braces stand for what a trace knows:
//   {rank}      the rank that was late
//   {who}       who waited
//   {root}      the work that decided
//   {needs}     "<who> needs <chunk>"
//   {subject}   who waited, or what it needs, "whose fetch" was held up
//   {ending}    what only some roots and devices have to add, with a full stop
//   {memory} {states} {threads} {bus} {network} {batch}
//               settings that would have helped, each with its figures; each
//               but {batch}, which comes last, ends with "; "
struct CauseRow {
  WaitCause cause;
  // One line for all waits of the cause.
  absl::string_view title;
  // Says what happened in one wait.
  absl::string_view text;
  // The same where copies lay back to back; empty: no other.
  absl::string_view back_to_back = "";
  TellsDecision decision = TellsDecision::kNever;
  // Says what would have avoided it; empty: nothing that a trace shows.
  absl::string_view remedy = "";
  // The remedy is one only where the device's streams are threads of this
  // machine.
  bool host_only = false;
};

const CauseRow& RowOf(WaitCause cause);

}  // namespace castor

#endif  // CASTOR_INSIGHT_CAUSE_TEXTS_H_
