// How fast a device and its host are, for a plan: measured with the kernels
// that train.
#ifndef CASTOR_CLI_MACHINE_MEASURED_RATES_H_
#define CASTOR_CLI_MACHINE_MEASURED_RATES_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "cli/machine/bandwidth.h"
#include "device/cuda/api.h"
#include "device/device.h"
#include "device/machines/machines.h"
#include "device/machines/rate_by_size.h"
#include "kernels/kernel_sizes.h"

namespace castor::cli {

// Each rate is the median of several, of work whose operands are in no cache,
// as they are for the greater part in a step.
struct MeasuredRates {
  // Each type has the rates of products of square matrices, where a
  // multiplication and an addition count as two operations, and of causal
  // attention's forward and backward passes together.
  TypeRates fp32, fp16, bf16;
  // The bytes a second that a sum of two arrays in fp32 reads and writes in the
  // device's memory, by the bytes of all three.
  RateBySize arrays;
  // The bytes a second that AdamW's update of parameters in bf16 reads and
  // writes in the host's memory.
  double update_bytes_per_s = 0;
  BusBandwidth copies;
};

// The bytes that MeasureRates needs of the host's memory.
inline constexpr int64_t kRatesHostBytes = int64_t{192} << 20;

// Returns those that it needs of the device's.
int64_t RatesBytes(const kernels::KernelSizes* gpu_sizes);

// Measures the rates. `host` has kRatesHostBytes, and the device RatesBytes.
// `gpu_sizes`: of a GPU's kernels; null: the host is the device. Takes some
// seconds. Internal: the device fails.
absl::StatusOr<MeasuredRates> MeasureRates(
    Device& device, std::byte* host, const kernels::KernelSizes* gpu_sizes);

// Return rows of machines.json: of a host, with the device that it emulates,
// and of a GPU.
nlohmann::ordered_json HostRow(const MeasuredRates& rates,
                               const std::string& name);
nlohmann::ordered_json GpuRow(const MeasuredRates& rates,
                              const cuda::GpuProperties& gpu);

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_MEASURED_RATES_H_
