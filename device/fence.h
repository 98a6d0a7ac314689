// Streams and fences.
//
// A *stream* runs its work in the order in which it was queued; streams run
// side by side. A *fence* names, for each stream, how much of its work must be
// over: the meeting point of any number of events in a few integers. Fences
// only ever name work that is already queued, so waiting on them cannot
// deadlock.
#ifndef CASTOR_DEVICE_FENCE_H_
#define CASTOR_DEVICE_FENCE_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace castor {

enum class StreamId : uint8_t {
  kCompute,       // operators, on the device
  kHostToDevice,  // copies to the device
  kDeviceToHost,  // copies to the host
  kHostCompute,   // the optimizer and sums whose data live on the host
  kNetwork,       // collectives among ranks (comm/communicator.h)
};
inline constexpr int kNumStreams = 5;

constexpr absl::string_view StreamName(StreamId stream) {
  constexpr absl::string_view kNames[kNumStreams] = {
      "compute", "host_to_device", "device_to_host", "host_compute", "network"};
  return kNames[static_cast<int>(stream)];
}

// The number of work items of each stream that must be over. A value type; the
// default fence is always reached.
class Fence {
 public:
  constexpr Fence() = default;
  constexpr Fence(StreamId stream, int64_t count) { Add(stream, count); }

  constexpr int64_t count(StreamId stream) const {
    return counts_[static_cast<int>(stream)];
  }
  constexpr void Add(StreamId stream, int64_t count) {
    int64_t& mine = counts_[static_cast<int>(stream)];
    mine = std::max(mine, count);
  }
  constexpr void Add(const Fence& other) {
    for (int i = 0; i < kNumStreams; ++i) {
      counts_[i] = std::max(counts_[i], other.counts_[i]);
    }
  }
  friend constexpr bool operator==(const Fence&, const Fence&) = default;

 private:
  std::array<int64_t, kNumStreams> counts_{};
};

}  // namespace castor

#endif  // CASTOR_DEVICE_FENCE_H_
