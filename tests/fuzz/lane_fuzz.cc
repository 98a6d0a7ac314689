// Any headers on the lanes from the other ranks: collectives end well, or with
// an error; what does not agree moves nothing.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "device/comm/exchange_communicator.h"
#include "device/comm/transport.h"
#include "device/host/host_device.h"

namespace {

using namespace castor;  // NOLINT

// The others say what the input has, message by message.
class ScriptedTransport final : public Transport {
 public:
  ScriptedTransport(const uint8_t* data, size_t size)
      : data_(data), size_(size) {}

  int rank() const override { return 1; }
  int world_size() const override { return 3; }
  absl::Status Send(int, Lane, const void*, int64_t, int64_t token) override {
    done_.push_back(token);
    return absl::OkStatus();
  }
  absl::Status Receive(int, Lane, void* data, int64_t bytes,
                       int64_t token) override {
    wanted_.push_back({data, bytes, token});
    return absl::OkStatus();
  }
  absl::Status Poll(int64_t, bool, std::vector<int64_t>* done) override {
    if (!failure_.ok()) return failure_;
    done->swap(done_);
    done_.clear();
    if (!done->empty()) return absl::OkStatus();
    if (size_ == 0 || wanted_.empty()) {
      failure_ = absl::UnavailableError("they have gone");
      return failure_;
    }
    const Wanted first = wanted_.front();
    wanted_.erase(wanted_.begin());
    const size_t some = std::min<size_t>(size_, first.bytes);
    std::memset(first.data, 0, first.bytes);
    std::memcpy(first.data, data_, some);
    data_ += some;
    size_ -= some;
    done->push_back(first.token);
    return absl::OkStatus();
  }
  void Abandon() override { wanted_.clear(); }
  void Announce(const absl::Status& reason) override {
    if (failure_.ok()) failure_ = reason;
  }
  absl::Status Failure() const override { return failure_; }
  void Close(bool) override {}

 private:
  struct Wanted {
    void* data;
    int64_t bytes, token;
  };
  const uint8_t* data_;
  size_t size_;
  std::vector<int64_t> done_;
  std::vector<Wanted> wanted_;
  absl::Status failure_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto device = [] {
    auto made = HostDevice::Create({.memory_bytes = 1 << 16});
    CASTOR_CHECK(made.ok());
    return *std::move(made);
  }();
  auto communicator = ExchangeCommunicator::Create(
      device.get(), std::make_unique<ScriptedTransport>(data, size), {});
  CASTOR_CHECK(communicator.ok());
  int64_t values[4] = {1, 2, 3, 4};
  char mine[16] = "mine", all[48];
  const auto gathered = (*communicator)->AllGather("g", 0, mine, all, 16);
  const auto reduced =
      (*communicator)
          ->AllReduce("r", 0, ReduceOp::kSum, absl::MakeSpan(values));
  // The second is refused where the first has failed already. Only if both were
  // agreed upon:
  if (gathered.ok() && reduced.ok() && device->Synchronize(*reduced).ok()) {
    CASTOR_CHECK(std::memcmp(all + 16, mine, 16) == 0);
  }
  // Nothing on the stack is touched from here on.
  communicator->reset();
  return 0;
}
