#include "cli/machine/host_card.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "device/host/emulated_card.h"
#include "device/host/host_device.h"
#include "run/first_budget.h"

namespace castor::cli {
namespace {

HostDeviceOptions::Card CardOf(const DeviceConfig& device, int local_rank) {
  return {.bytes = device.memory,
          .folder = device.memory_dir.empty()
                        ? ""
                        : absl::StrCat(device.memory_dir, "/", local_rank)};
}

}  // namespace

absl::StatusOr<int64_t> FirstBudgetOnCard(const DeviceConfig& device,
                                          int local_rank) {
  const HostDeviceOptions::Card is = CardOf(device, local_rank);
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<EmulatedCard> card,
                          EmulatedCard::Open(is.bytes, is.folder));
  CASTOR_ASSIGN_OR_RETURN(const DeviceRoom room, card->Room());
  return FirstBudget({.room = room}, kUnlimitedBytes, /*follows=*/true);
}

absl::Status RunOnCard(const Config& config, int local_rank,
                       TrainerOptions* options) {
  MemoryOptions& memory = options->memory;
  if (memory.follows_device && memory.device_bytes >= kUnlimitedBytes) {
    if (options->admit_only) {
      const int64_t all = config.device.memory;
      memory.device_bytes =
          FirstBudget({.room = {.free_bytes = all, .total_bytes = all}},
                      memory.device_bytes, /*follows=*/true);
    } else {
      CASTOR_ASSIGN_OR_RETURN(memory.device_bytes,
                              FirstBudgetOnCard(config.device, local_rank));
    }
  }
  options->open_device =
      [card = CardOf(config.device, local_rank), threads = options->threads,
       bus = options->bus_bytes_per_s](
          int64_t memory_bytes) -> absl::StatusOr<std::unique_ptr<Device>> {
    CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<HostDevice> device,
                            HostDevice::Create({.memory_bytes = memory_bytes,
                                                .most_memory_bytes = card.bytes,
                                                .compute_threads = threads,
                                                .host_compute_threads = threads,
                                                .bus_bytes_per_s = bus,
                                                .card = card}));
    return device;
  };
  return absl::OkStatus();
}

}  // namespace castor::cli
