// A GPU made of threads (run/fake_gpu.h) on which a test's client queues its
// work.
#ifndef CASTOR_CLIENT_TESTING_ON_GPU_H_
#define CASTOR_CLIENT_TESTING_ON_GPU_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "client/client_options.h"
#include "client/testing/test_client.h"
#include "device/cuda/fake_api.h"
#include "run/fake_gpu.h"
#include "run/gpu.h"

namespace castor::test_client {

// Streams on the GPU; the client queues its work on the first.
class OnGpu final : public Machine {
 public:
  OnGpu() { MakeStream(); }
  ~OnGpu() override {
    for (void* const stream : streams_) FakeGpu().DestroyStream(stream);
  }

  // The work is late every eighth time, so that code that does not wait for it
  // fails.
  void Compute(std::function<void()> work) override {
    const bool late = ++computed_ % 8 == 0;
    cuda::FakeApi::Launch(stream(), [late, work = std::move(work)] {
      if (late) std::this_thread::sleep_for(std::chrono::microseconds(100));
      work();
    });
  }
  bool is_stream() const override { return true; }
  void* stream() override { return streams_[0]; }
  void* MakeStream() {
    streams_.push_back(*FakeGpu().CreateStream(false));
    return streams_.back();
  }

  ClientOptions RunOn(ClientOptions options) {
    options.gpu = {.open = OpenerOf(*FindGpu(0), 1, stream()),
                   .stream = stream(),
                   .order = OrdererOf(*FindGpu(0))};
    return options;
  }

 private:
  std::vector<void*> streams_;
  int64_t computed_ = 0;
};

}  // namespace castor::test_client

#endif  // CASTOR_CLIENT_TESTING_ON_GPU_H_
