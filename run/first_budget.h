// How much of a device's memory a run begins with: where what was asked for
// (memory.device_memory) meets what the device has.
#ifndef CASTOR_RUN_FIRST_BUDGET_H_
#define CASTOR_RUN_FIRST_BUDGET_H_

#include <cstdint>

#include "base/units.h"
#include "device/device.h"

namespace castor {

// A device's memory before the run takes any of it.
struct DeviceMemory {
  int64_t usable_bytes = kUnlimitedBytes;  // all that a run can take
  DeviceRoom room = {};  // what others leave free; for runs that follow it
};

// Returns the bytes that a run may have which follows what others leave free of
// a card, where it has `own_bytes` of it already: these and what is free, but
// for a sixteenth of the card, so that somebody else can begin to work there at
// all. At least 1.
int64_t RoomFor(const DeviceRoom& card, int64_t own_bytes);

// Returns bytes: `asked` where so many were asked for. Where none were
// (kUnlimitedBytes) it is all that is usable, and for a run that follows what
// others leave free (program/memory_follower.h) no more than RoomFor it.
int64_t FirstBudget(const DeviceMemory& device, int64_t asked, bool follows);

}  // namespace castor

#endif  // CASTOR_RUN_FIRST_BUDGET_H_
