#include "device/worker_stream.h"

#include <sys/prctl.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/spin_wait.h"
#include "base/status_macros.h"
#include "base/thread.h"

namespace castor {

absl::Status WorkerStream::Start(absl::string_view name, Handler handler) {
  handler_ = std::move(handler);
  CASTOR_ASSIGN_OR_RETURN(
      thread_,
      StartThread(absl::StrCat("the stream ", name), [this] { Loop(); }));
  return absl::OkStatus();
}

int64_t WorkerStream::Push(StreamItem item) {
  bool wake;
  const int64_t count = queued_.load(std::memory_order_relaxed) + 1;
  if (at_once_) {
    queued_.store(count, std::memory_order_release);
    handler_(item, count);
    return count;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(item));
    queued_.store(count, std::memory_order_release);
    wake = std::exchange(sleeping_, false);
  }
  if (wake) filled_.notify_one();
  return count;
}

void WorkerStream::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  filled_.notify_one();
}

void WorkerStream::Join() {
  if (!thread_.joinable()) return;
  Stop();
  thread_.join();
}

void WorkerStream::Loop() {
  // The default slack rounds every sleep up by 50 us: too coarse for a bus.
  prctl(PR_SET_TIMERSLACK, 1);
  std::vector<StreamItem> batch;
  int64_t count = 0;
  while (true) {
    batch.clear();
    SpinUntil([&] { return queued_.load(std::memory_order_acquire) != count; });
    {
      std::unique_lock<std::mutex> lock(mutex_);
      while (queue_.empty()) {
        if (stop_) return;
        sleeping_ = true;
        filled_.wait(lock, [&] { return !sleeping_ || stop_; });
        sleeping_ = false;
      }
      batch.swap(queue_);
    }
    for (StreamItem& item : batch) handler_(item, ++count);
  }
}

}  // namespace castor
