// Highway's library measures the resolution of the clock whenever a process
// starts, for its benchmarks: a tenth of what the short runs here take. It is
// told one tick.
#include <cstdint>

namespace hwy::platform {

__attribute__((visibility("default"))) uint64_t TimerResolution() { return 1; }

}  // namespace hwy::platform
