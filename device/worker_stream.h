// A stream's queue and the thread that takes its items in order; or, without
// either, a stream whose items run on the pushing thread.
#ifndef CASTOR_DEVICE_WORKER_STREAM_H_
#define CASTOR_DEVICE_WORKER_STREAM_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "device/device.h"

namespace castor {

// An item that was queued on a stream.
struct StreamItem {
  enum class Kind : uint8_t { kWork, kCopy, kFill, kWait };
  Kind kind = Kind::kWork;
  uint8_t value = 0;  // kFill
  int64_t tag = 0;
  Work work;  // kWork
  void* dst = nullptr;
  const void* src = nullptr;
  int64_t bytes = 0;
  int64_t queued_ns = 0;  // if the device needs it
  Fence fence;            // kWait
};

// Threads: one thread pushes at a time. The handler runs on the stream's own
// thread, or on the one that pushes (StartAtOnce).
class WorkerStream {
 public:
  // Called with each item and its number, from 1, in order.
  using Handler = std::function<void(StreamItem& item, int64_t count)>;

  WorkerStream() = default;
  ~WorkerStream() { Join(); }
  WorkerStream(const WorkerStream&) = delete;
  WorkerStream& operator=(const WorkerStream&) = delete;

  // Starts the thread; call it once. Items that were pushed before wait for it.
  // ResourceExhausted: there is no thread; nothing may be pushed. `name` names
  // the stream.
  absl::Status Start(absl::string_view name, Handler handler);
  // Starts without a thread, in place of Start: Push then returns when the item
  // was handled. Call it before the first Push.
  void StartAtOnce(Handler handler) {
    handler_ = std::move(handler);
    at_once_ = true;
  }

  // Queues the item and returns its number.
  int64_t Push(StreamItem item);
  // The number of items pushed so far.
  int64_t queued() const { return queued_.load(std::memory_order_relaxed); }

  // Lets the thread end once its queue is empty. Nothing is pushed after it.
  void Stop();
  void Join();

 private:
  void Loop();

  Handler handler_;
  bool at_once_ = false;
  // The producer's count. The mutex guards the four members below it.
  std::atomic<int64_t> queued_{0};
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<StreamItem> queue_;
  bool sleeping_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_WORKER_STREAM_H_
