#include <cstdlib>
#include <functional>
#include <utility>

#include "device/cuda/fake_api.h"
#include "kernels/cuda/emulated_block.h"
#include "kernels/cuda/kernels.h"
#include "tests/on_gpu.h"
#include "tests/test_machine.h"

namespace castor::testing {
namespace {

cuda::FakeApi* Gpu() {
  static cuda::FakeApi* const gpu = [] {
    kernels::cuda::CurrentEmulatedQueue() = [](void* stream,
                                               std::function<void()> work) {
      cuda::FakeApi::Launch(stream, std::move(work));
    };
    // The number of launches that a stream's queue in the driver takes, if it
    // is limited.
    const char* const limit = std::getenv("CASTOR_FAKE_QUEUE");
    return new cuda::FakeApi(
        {.jitter_ns = 100'000,
         .queue_limit = limit != nullptr ? std::atoi(limit) : 0});
  }();
  return gpu;
}

}  // namespace

std::string WhyNoTestMachine() { return ""; }

TrainingCase OnTestMachine(TrainingCase c) {
  return OnGpu(std::move(c), Gpu(), kernels::cuda::Kernels());
}

int MostRanksOnTestMachine() { return 1; }

int64_t PlacementsOnTestMachine() { return 192; }

}  // namespace castor::testing
