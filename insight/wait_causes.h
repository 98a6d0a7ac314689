// Why a stream stood still.
//
// A wait names the work that it waited for; why that work was not over sooner
// lies further back. For a fetch it is found by going back on its own stream,
// from copy to copy as long as they lie back to back, to the first one that had
// to wait in turn (for room, for the host's update) or that was issued late:
//
//   compute  |== op ==|....... wait .......|== op ==|
//   to device    |- copy -|- copy -|- fetch -|        <- the bus is the cause
//   to device             |. wait .|- fetch -|        <- what it waited for is
//   CPU      |======== update ======|
//
// If the chain of copies is at least kBusShare times as long as the wait, most
// of it lay beside operators, and still it was not enough: the bus is the
// cause. Else it is what held up the chain's first copy.
//
// A collective begins on a rank when its stream has come to it, and its parts
// cross when the last rank has. So a wait for the network is divided, from its
// end back along the network's stream, into parts that crossed, ranks that were
// late, and what held up the network's stream itself. What took most is the
// cause.
//
//   compute  |== op ==|......... wait .........|== op ==|
//   network      |. rank 2 .|-- gather --|-- gather --|
//
// Where a stream goes on long after what it waited for was over, most of the
// time lies there, and nothing further back matters: on the host device its
// thread got no CPU.
#ifndef CASTOR_INSIGHT_WAIT_CAUSES_H_
#define CASTOR_INSIGHT_WAIT_CAUSES_H_

#include <cstdint>
#include <vector>

#include "insight/spans.h"

namespace castor {

inline constexpr int64_t kBusShare = 2;
// Copies of which the next starts this soon lie back to back.
inline constexpr int64_t kBackToBackNs = 100'000;
// Going on this soon after what was waited for is no delay worth a name.
inline constexpr int64_t kWokenLateNs = 50'000;

enum class WaitCause : uint8_t {
  kUnknown,          // nothing that the trace holds
  kBus,              // copies back to back, or one that takes too long
  kIssuedLate,       // the host thread had not come to the fetch
  kRoomOperator,     // a fetch takes bytes that an operator still used
  kRoomCopyBack,     // a fetch takes bytes that were being copied back
  kOperatorRoom,     // an operator takes bytes that a copy still used
  kHostUpdate,       // the host's update of the chunk
  kHostReduce,       // the host's sum of the chunk's gradients
  kGradientNorm,     // clipping
  kGradientsCopied,  // the chunk's gradients on their way to the host
  kOperator,         // the operator that makes what is copied or reduced
  kEarlierCopy,      // another copy of the same chunk
  kInput,            // the loss's copy
  kPlanChange,       // what moves between two plans
  kWokenLate,        // what it waited for had been over for long
  kBlocksMove,       // the arena moves blocks to make one hole of several
  kNetwork,          // parts that cross the network
  kLateRank,         // a rank came late to what all do together
  kOther,            // none of these
};
inline constexpr int kNumWaitCauses = 19;

// Says whether the compute stream paid for a wait.
enum class Exposure : uint8_t {
  kNone,      // no operator waited for what came of it
  kPassedOn,  // it lies on the way back from a wait of compute's to its root
  kCompute,   // the compute stream itself stood still
};

struct WaitFinding {
  WaitCause cause = WaitCause::kUnknown;
  int64_t root = -1;  // the span that decided, if there is one
  // kBus: whether other copies held up the one that was waited for.
  bool back_to_back = false;
  Exposure exposure = Exposure::kNone;
  int64_t rank = -1;  // kLateRank: which
};

// A part of the compute stream's waits, by what was under way meanwhile: the
// chain above, followed back to the wait's start.
enum class ExposedTo : uint8_t {
  kCopies,
  kOptimizer,  // the host's updates and sums
  kNetwork,    // parts on their way
  kLateRank,
};

struct ExposedPiece {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  ExposedTo to = ExposedTo::kCopies;
};

struct WaitCauses {
  std::vector<WaitFinding> findings;  // by span; of no meaning for work
  std::vector<ExposedPiece> pieces;   // tile the compute stream's waits
};

// O(spans) where a stream's spans do not overlap; never more than O(n log n).
WaitCauses FindWaitCauses(const TraceIndex& index, const SpanList& list);

}  // namespace castor

#endif  // CASTOR_INSIGHT_WAIT_CAUSES_H_
