#include "device/streamed_device.h"

#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace castor {

int64_t StreamedDevice::NowNs() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

absl::Status StreamedDevice::StartStreams() {
  for (int i = 0; i < kNumStreams; ++i) {
    const StreamId id = static_cast<StreamId>(i);
    const auto handle = [this, id](StreamItem& item, int64_t count) {
      Handle(id, item, count);
    };
    if (HandlesAtOnce(id)) {
      streams_[i].StartAtOnce(handle);
    } else {
      CASTOR_RETURN_IF_ERROR(streams_[i].Start(StreamName(id), handle));
    }
  }
  return absl::OkStatus();
}

void StreamedDevice::StopStreams() {
  // A thread ends when its queue is empty; what it waits for on other streams
  // is queued already, so all of them come to an end.
  for (WorkerStream& stream : streams_) stream.Stop();
  for (WorkerStream& stream : streams_) stream.Join();
}

Fence StreamedDevice::Enqueue(StreamId id, int64_t tag, Work work) {
  StreamItem item;
  item.kind = StreamItem::Kind::kWork;
  item.tag = tag;
  item.work = std::move(work);
  return Fence(id, streams_[static_cast<int>(id)].Push(std::move(item)));
}

Fence StreamedDevice::Copy(StreamId id, int64_t tag, void* dst, const void* src,
                           int64_t bytes) {
  CASTOR_CHECK(bytes >= 0);
  StreamItem item;
  item.kind = StreamItem::Kind::kCopy;
  item.tag = tag;
  item.dst = dst;
  item.src = src;
  item.bytes = bytes;
  if (WantsQueuedNs(id)) item.queued_ns = NowNs();
  return Fence(id, streams_[static_cast<int>(id)].Push(std::move(item)));
}

Fence StreamedDevice::Fill(StreamId id, int64_t tag, void* dst, uint8_t value,
                           int64_t bytes) {
  CASTOR_CHECK(bytes >= 0);
  StreamItem item;
  item.kind = StreamItem::Kind::kFill;
  item.tag = tag;
  item.dst = dst;
  item.value = value;
  item.bytes = bytes;
  return Fence(id, streams_[static_cast<int>(id)].Push(std::move(item)));
}

void StreamedDevice::Wait(StreamId id, const Fence& fence, int64_t tag) {
  // Work on the stream itself is in order anyway, and work that is over was
  // seen by this thread, whose later work the stream's thread sees in turn.
  Fence rest;
  for (int i = 0; i < kNumStreams; ++i) {
    const StreamId other = static_cast<StreamId>(i);
    if (other == id) continue;
    const int64_t count = fence.count(other);
    CASTOR_CHECK(count <= streams_[i].queued());
    if (count > over_.count(other)) rest.Add(other, count);
  }
  if (rest == Fence()) return;
  StreamItem item;
  item.kind = StreamItem::Kind::kWait;
  item.tag = tag;
  item.fence = rest;
  // Counts as an item of the stream: whoever waits for Now(id) from here on
  // waits for `fence` too.
  streams_[static_cast<int>(id)].Push(std::move(item));
}

Fence StreamedDevice::Now(StreamId id) const {
  return Fence(id, streams_[static_cast<int>(id)].queued());
}

absl::Status StreamedDevice::Synchronize(const Fence& fence) {
  for (int i = 0; i < kNumStreams; ++i) {
    CASTOR_CHECK(fence.count(static_cast<StreamId>(i)) <= streams_[i].queued());
  }
  over_.BlockUntilReached(fence);
  for (int i = 0; i < kNumStreams; ++i) {
    if (fence.count(static_cast<StreamId>(i)) == 0) continue;
    if (!failed(static_cast<StreamId>(i))) continue;
    std::lock_guard<std::mutex> lock(failures_[i].mutex);
    return failures_[i].why;
  }
  return absl::OkStatus();
}

void StreamedDevice::Fail(StreamId id, absl::Status why) {
  Failure& failure = failures_[static_cast<int>(id)];
  std::lock_guard<std::mutex> lock(failure.mutex);
  if (failure.failed.load(std::memory_order_relaxed)) return;
  failure.why = std::move(why);
  failure.failed.store(true, std::memory_order_release);
}

bool StreamedDevice::RunOnHost(
    StreamId id, StreamItem& item, int64_t count,
    absl::FunctionRef<absl::Status(StreamItem&)> run) {
  DeviceObserver* const observer = observer_.load();
  const int64_t start_ns = observer == nullptr ? 0 : NowNs();
  bool waited = false;
  if (item.kind == StreamItem::Kind::kWait) {
    waited = over_.BlockUntilReached(item.fence);
    if (waited && observer != nullptr) {
      observer->OnWait(id, count, item.tag, item.fence, start_ns, NowNs());
    }
  } else if (!failed(id)) {
    absl::Status status = run(item);
    if (observer != nullptr) {
      observer->OnWork(id, count, item.tag, start_ns, NowNs());
    }
    if (!status.ok()) Fail(id, std::move(status));
  }
  item.work = nullptr;
  Finish(id, count);
  return waited;
}

}  // namespace castor
