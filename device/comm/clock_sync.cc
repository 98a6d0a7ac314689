#include "device/comm/clock_sync.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "device/comm/agreement.h"

namespace castor {
namespace {

constexpr int kBarriers = 8;

struct Stamps {
  std::array<int64_t, kBarriers> come_ns, left_ns;
};

}  // namespace

absl::StatusOr<ClockOffset> MeasureClockOffset(
    Communicator& ranks, absl::string_view key,
    absl::FunctionRef<int64_t()> now) {
  std::vector<Stamps> all(ranks.world_size());
  Stamps& own = all[ranks.rank()];
  for (int i = 0; i < kBarriers; ++i) {
    own.come_ns[i] = now();
    CASTOR_RETURN_IF_ERROR(Await(ranks, ranks.Barrier(key, 0)));
    own.left_ns[i] = now();
  }
  CASTOR_RETURN_IF_ERROR(
      Await(ranks, ranks.AllGather(key, 0, &own, all.data(), sizeof(Stamps))));
  if (ranks.rank() == 0) return ClockOffset{};
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kBarriers; ++i) {
    least = std::max(least, all[0].come_ns[i] - own.left_ns[i]);
    most = std::min(most, all[0].left_ns[i] - own.come_ns[i]);
  }
  // Clocks that drift within a few barriers could contradict themselves.
  if (least > most) std::swap(least, most);
  return ClockOffset{.offset_ns = least + (most - least) / 2,
                     .error_ns = (most - least + 1) / 2};
}

}  // namespace castor
