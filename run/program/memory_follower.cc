#include "run/program/memory_follower.h"

#include <algorithm>

namespace castor {

std::optional<int64_t> MemoryFollower::Look(int64_t room, int64_t budget,
                                            int64_t least, int64_t most) {
  const int64_t wanted = std::min(std::max(room, least), most);
  if (wanted > budget + budget / 16) {
    if (++more_in_row_ < wait_) return std::nullopt;
    more_in_row_ = 0;
    return wanted;
  }
  more_in_row_ = 0;
  if (wanted < budget - budget / 32) return wanted;
  return std::nullopt;
}

void MemoryFollower::Changed() {
  wait_ = kGrowAfter;
  more_in_row_ = 0;
}

void MemoryFollower::Refused() { wait_ = std::min(2 * wait_, kMostWait); }

}  // namespace castor
