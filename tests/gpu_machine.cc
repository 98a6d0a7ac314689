#include <string>
#include <utility>

#include "device/cuda/runtime_api.h"
#include "kernels/cuda/kernels.h"
#include "tests/on_gpu.h"
#include "tests/test_machine.h"

namespace castor::testing {

std::string WhyNoTestMachine() {
  const auto found = cuda::RuntimeApi();
  const absl::Status status =
      found.ok() ? (*found)->CountDevices().status() : found.status();
  return std::string(status.message());
}

TrainingCase OnTestMachine(TrainingCase c) {
  return OnGpu(std::move(c), *cuda::RuntimeApi(), kernels::cuda::Kernels());
}

int MostRanksOnTestMachine() { return 1; }

int64_t PlacementsOnTestMachine() { return 240; }

}  // namespace castor::testing
