#include "cli/machine/bandwidth.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace castor::cli {
namespace {

constexpr int kRounds = 5;

absl::StatusOr<double> Measure(Device& device, std::byte* host,
                               int64_t copy_bytes,
                               const std::vector<StreamId>& streams) {
  double best = 0;
  for (int round = 0; round <= kRounds; ++round) {
    const int64_t start = device.NowNs();
    Fence done;
    for (size_t i = 0; i < streams.size(); ++i) {
      std::byte* const near = device.memory() + i * copy_bytes;
      std::byte* const far = host + i * copy_bytes;
      const bool in = streams[i] == StreamId::kHostToDevice;
      done.Add(device.Copy(streams[i], 0, in ? near : far, in ? far : near,
                           copy_bytes));
    }
    CASTOR_RETURN_IF_ERROR(device.Synchronize(done));
    const double seconds = 1e-9 * static_cast<double>(device.NowNs() - start);
    if (round > 0) {
      best = std::max(best, static_cast<double>(copy_bytes) *
                                static_cast<double>(streams.size()) / seconds);
    }
  }
  return best;
}

}  // namespace

nlohmann::json BusBandwidth::ToJson() const {
  return {{"to_device_bytes_per_s", to_device_bytes_per_s},
          {"from_device_bytes_per_s", from_device_bytes_per_s},
          {"both_bytes_per_s", both_bytes_per_s}};
}

std::string BusBandwidth::ToString() const {
  return absl::StrFormat(
      "%.1f GB/s to the device, %.1f GB/s from it, %.1f GB/s in both "
      "directions at once",
      to_device_bytes_per_s * 1e-9, from_device_bytes_per_s * 1e-9,
      both_bytes_per_s * 1e-9);
}

absl::StatusOr<BusBandwidth> MeasureBandwidth(Device& device, std::byte* host,
                                              int64_t copy_bytes) {
  BusBandwidth bus;
  CASTOR_ASSIGN_OR_RETURN(
      bus.to_device_bytes_per_s,
      Measure(device, host, copy_bytes, {StreamId::kHostToDevice}));
  CASTOR_ASSIGN_OR_RETURN(
      bus.from_device_bytes_per_s,
      Measure(device, host, copy_bytes, {StreamId::kDeviceToHost}));
  CASTOR_ASSIGN_OR_RETURN(
      bus.both_bytes_per_s,
      Measure(device, host, copy_bytes,
              {StreamId::kHostToDevice, StreamId::kDeviceToHost}));
  return bus;
}

}  // namespace castor::cli
