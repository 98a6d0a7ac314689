// When what left comes back.
//
// The bus towards the device carries one copy after the other. Going through
// the uses from the last to the first gives each fetch the time by which it has
// to begin so that its operator and all later ones find their chunks there: its
// *due* moment. From there on its room should be free.
#ifndef CASTOR_MEMORY_PLAN_PREFETCH_H_
#define CASTOR_MEMORY_PLAN_PREFETCH_H_

#include <cstdint>
#include <vector>

#include "memory/plan/residency.h"
#include "memory/plan/room.h"
#include "memory/plan/use_index.h"

namespace castor {

// The gaps that are left, by the moment of their next use, those across the end
// of the step last.
std::vector<int64_t> FetchesByNeed(const UseIndex& index,
                                   const Residency& residency);

// Gives for each of `fetches` the moment, in [ready, to], in whose actions it
// has to be issued if copies take `strength` times as long as the bus says. 0:
// no lead.
std::vector<int64_t> DueMoments(const UseIndex& index, const BusModel& bus,
                                double strength,
                                const std::vector<int64_t>& fetches);

// The due moment of every gap as if its fetch were the only one.
std::vector<int64_t> LoneDueMoments(const UseIndex& index, const BusModel& bus,
                                    double strength);

// Gives for each of `fetches` the moment, in its own gap's count, from which on
// fewer than `ahead` uses of the others come before its own: what is issued no
// earlier has at most `ahead` fetches on their way. Of fewer fetches, and with
// `ahead` 0, none is held back.
std::vector<int64_t> EarliestMoments(const UseIndex& index,
                                     const std::vector<int64_t>& fetches,
                                     int64_t ahead);

// How long the bus takes for a copy of `bytes` from the device.
double CopyBackNs(const BusModel& bus, int64_t bytes);

// Takes from `room` what is copied back until its copy should be over, where
// that much room is left: whoever took its place earlier would wait for the
// copy, and the queue of the bus behind him. Copies are one after the other, in
// the order in which their chunks leave.
void TakeUntilCopiedBack(const UseIndex& index, const BusModel& bus,
                         const Residency& residency, Room& room);

// Moves each fetch forward in time to earliest[i], or as near to it as room
// goes, in the order given, and takes that room. Each was at its use, or where
// an earlier call put it.
void MoveFetchesUp(const UseIndex& index, const std::vector<int64_t>& fetches,
                   const std::vector<int64_t>& earliest, Room& room,
                   Residency& residency);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_PREFETCH_H_
