#include "device/comm/single_rank.h"

#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "device/comm/exchange_communicator.h"
#include "device/comm/transport.h"

namespace castor {
namespace {

// No other rank, no message.
class NoTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  absl::Status Send(int, Lane, const void*, int64_t, int64_t) override {
    return absl::InternalError("a single rank has nobody to send to");
  }
  absl::Status Receive(int, Lane, void*, int64_t, int64_t) override {
    return absl::InternalError("a single rank has nobody to hear from");
  }
  absl::Status Poll(int64_t, bool, std::vector<int64_t>*) override {
    return Failure();
  }
  void Abandon() override {}
  void Announce(const absl::Status& reason) override {
    std::lock_guard<std::mutex> lock(mutex_);
    failure_.Update(reason);
  }
  absl::Status Failure() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
  }
  void Close(bool) override {}

 private:
  mutable std::mutex mutex_;
  absl::Status failure_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeSingleRank(Device* device) {
  return ExchangeCommunicator::Create(device, std::make_unique<NoTransport>(),
                                      {});
}

}  // namespace castor
