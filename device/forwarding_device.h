// A device that forwards all calls to another one: a base class for tests and
// benchmarks that change or record some of the calls.
#ifndef CASTOR_DEVICE_FORWARDING_DEVICE_H_
#define CASTOR_DEVICE_FORWARDING_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/device.h"

namespace castor {

class ForwardingDevice : public Device {
 public:
  absl::string_view name() const override { return device_->name(); }
  std::byte* memory() override { return device_->memory(); }
  int64_t memory_bytes() const override { return device_->memory_bytes(); }
  absl::Status Resize(int64_t bytes) override { return device_->Resize(bytes); }
  absl::StatusOr<DeviceRoom> Room() override { return device_->Room(); }
  Fence Enqueue(StreamId stream, int64_t tag, Work work) override {
    return device_->Enqueue(stream, tag, std::move(work));
  }
  Fence Copy(StreamId stream, int64_t tag, void* dst, const void* src,
             int64_t bytes) override {
    return device_->Copy(stream, tag, dst, src, bytes);
  }
  Fence Fill(StreamId stream, int64_t tag, void* dst, uint8_t value,
             int64_t bytes) override {
    return device_->Fill(stream, tag, dst, value, bytes);
  }
  void Wait(StreamId stream, const Fence& fence, int64_t tag) override {
    device_->Wait(stream, fence, tag);
  }
  Fence Now(StreamId stream) const override { return device_->Now(stream); }
  bool Reached(const Fence& fence) const override {
    return device_->Reached(fence);
  }
  absl::Status Synchronize(const Fence& fence) override {
    return device_->Synchronize(fence);
  }
  HostPinner* host_pinner() override { return device_->host_pinner(); }
  int64_t NowNs() const override { return device_->NowNs(); }
  void SetObserver(DeviceObserver* observer) override {
    device_->SetObserver(observer);
  }

 protected:
  // Not null; outlives every call.
  explicit ForwardingDevice(Device* device) : device_(device) {}

 private:
  Device* const device_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_FORWARDING_DEVICE_H_
