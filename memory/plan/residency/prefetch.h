// Prefetching: decides when chunks that left come back.
//
// The bus to the device carries one copy after the other. A pass over the uses
// from the last to the first gives each fetch its latest start, the *due*
// moment: the last moment at which it can be issued so that its operator and
// all later ones find their chunks on the device. Its room should be free from
// then on. The *lead* of a fetch is its prefetch distance: how many moments
// before its use it is issued.
#ifndef CASTOR_MEMORY_PLAN_RESIDENCY_PREFETCH_H_
#define CASTOR_MEMORY_PLAN_RESIDENCY_PREFETCH_H_

#include <cstdint>
#include <vector>

#include "memory/plan/residency/residency.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/residency/use_index.h"

namespace castor {

// Returns the gaps in which chunks leave, by the moment of the next use; gaps
// across the end of the step come last.
std::vector<int64_t> FetchesByNeed(const UseIndex& index,
                                   const Residency& residency);

// Returns for each of `fetches` its latest start: the moment, in [ready, to],
// in whose actions it has to be issued if copies take `strength` times as long
// as by the bus model. 0: at its use, without a lead.
std::vector<int64_t> DueMoments(const UseIndex& index, const BusModel& bus,
                                double strength,
                                const std::vector<int64_t>& fetches);

// Returns the latest start of every gap as if its fetch were the only one.
std::vector<int64_t> LoneDueMoments(const UseIndex& index, const BusModel& bus,
                                    double strength);

// Returns for each of `fetches` its earliest start, unrolled as its own gap:
// the moment from which on fewer than `ahead` uses of other fetches precede its
// own. If none is issued earlier, at most `ahead` fetches are under way. With
// `ahead` 0, or no more than `ahead` fetches, none is held back.
std::vector<int64_t> EarliestMoments(const UseIndex& index,
                                     const std::vector<int64_t>& fetches,
                                     int64_t ahead);

// Returns the time that the bus takes to copy `bytes` from the device.
double CopyBackNs(const BusModel& bus, int64_t bytes);

// Takes room for each chunk that is copied back until its copy should be over,
// where that much room is left: a fetch into its place would wait for the copy,
// and so would all copies queued behind that fetch. Copies run one after the
// other, in the order in which their chunks leave.
void TakeUntilCopiedBack(const UseIndex& index, const BusModel& bus,
                         const Residency& residency, Room& room);

// Moves each fetch to earliest[i], or as near to it as the room allows, in the
// order given, and takes that room. Each fetch was at its use, or where an
// earlier call put it.
void MoveFetchesUp(const UseIndex& index, const std::vector<int64_t>& fetches,
                   const std::vector<int64_t>& earliest, Room& room,
                   Residency& residency);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_RESIDENCY_PREFETCH_H_
