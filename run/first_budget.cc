#include "run/first_budget.h"

#include <algorithm>

namespace castor {

int64_t RoomFor(const DeviceRoom& card, int64_t own_bytes) {
  return std::max<int64_t>(1,
                           own_bytes + card.free_bytes - card.total_bytes / 16);
}

int64_t FirstBudget(const DeviceMemory& device, int64_t asked, bool follows) {
  if (asked < kUnlimitedBytes) return asked;
  if (!follows) return device.usable_bytes;
  return std::min(device.usable_bytes, RoomFor(device.room, /*own_bytes=*/0));
}

}  // namespace castor
