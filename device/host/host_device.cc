#include "device/host/host_device.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/spin_wait.h"
#include "base/units.h"

namespace castor {
namespace {

// A copy over a limited bus goes in pieces of this, so that it takes the bus's
// time evenly.
constexpr int64_t kPieceBytes = int64_t{1} << 20;
// Between two pieces, being ahead by less than this is not worth a sleep.
constexpr int64_t kWorthSleepingNs = 50'000;
// A timer wakes a thread this much late, or more: the rest is spent looking.
constexpr int64_t kTimerLateNs = 20'000;
// How far back a copy may start to make up for a late end of the one before it.
constexpr int64_t kCatchUpNs = 2'000'000;

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void SleepUntilNs(int64_t due_ns) {
  const int64_t sleep_ns = due_ns - SteadyNs() - kTimerLateNs;
  if (sleep_ns > 0) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns));
  }
  while (SteadyNs() < due_ns) CpuPause();
}

bool CrossesBus(StreamId stream) {
  return stream == StreamId::kHostToDevice || stream == StreamId::kDeviceToHost;
}

}  // namespace

struct HostDevice::Item {
  enum class Kind : uint8_t { kWork, kCopy, kWait };
  Kind kind = Kind::kWork;
  int64_t tag = 0;
  Work work;  // kWork
  void* dst = nullptr;
  const void* src = nullptr;
  int64_t bytes = 0;      // kCopy
  int64_t queued_ns = 0;  // kCopy over a limited bus
  Fence fence;            // kWait
};

struct HostDevice::Stream {
  explicit Stream(int threads) : pool(threads) {}

  ThreadPool pool;

  // The producer's count; the mutex guards queue, sleeping, stop and failure.
  std::atomic<int64_t> queued{0};
  std::mutex mutex;
  std::condition_variable filled;
  std::vector<Item> queue;
  bool sleeping = false;
  bool stop = false;
  absl::Status failure;  // the first one

  // Written by the worker alone.
  alignas(64) std::atomic<int64_t> completed{0};
  bool failed = false;
  int64_t bus_due_ns = 0;  // when the last copy was due

  std::thread worker;
};

absl::StatusOr<std::unique_ptr<HostDevice>> HostDevice::Create(
    const HostDeviceOptions& options) {
  if (options.memory_bytes < 0 || options.memory_bytes >= kUnlimitedBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "host device: memory of ", FormatBytes(options.memory_bytes), " (",
        options.memory_bytes,
        ") cannot be one block; give a size in bytes, such as what the run "
        "needs at its peak"));
  }
  if (options.compute_threads < 1 || options.host_compute_threads < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "host device: ", options.compute_threads, " compute threads and ",
        options.host_compute_threads,
        " host compute threads; each must be at least 1"));
  }
  if (!std::isfinite(options.bus_bytes_per_s) || options.bus_bytes_per_s < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("host device: a bus of ", options.bus_bytes_per_s,
                     " bytes/s; give a positive speed, or 0 for no limit"));
  }
  // The block, then one page that may not be touched: a write past the end of
  // device memory (beyond its last page) is a fault, not a quiet success.
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t usable = std::max(page, RoundUp(options.memory_bytes, page));
  const int64_t mapped = usable + page;
  void* const block = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) {
    const int error = errno;
    return absl::ResourceExhaustedError(absl::StrCat(
        "host device: no room for a block of ",
        FormatBytes(options.memory_bytes), " (", options.memory_bytes,
        " bytes): ", std::strerror(error),
        "; lower memory.device_memory or raise the process's address limit"));
  }
  std::byte* const memory = static_cast<std::byte*>(block);
  CASTOR_CHECK(mprotect(memory + usable, page, PROT_NONE) == 0);
  // Fewer page faults and TLB misses; no matter if the kernel declines.
  madvise(memory, usable, MADV_HUGEPAGE);
  return std::unique_ptr<HostDevice>(
      new HostDevice(options, memory, mapped));
}

HostDevice::HostDevice(const HostDeviceOptions& options, std::byte* memory,
                       int64_t mapped_bytes)
    : options_(options), memory_(memory), mapped_bytes_(mapped_bytes) {
  for (int i = 0; i < kNumStreams; ++i) {
    const StreamId id = static_cast<StreamId>(i);
    const int threads = id == StreamId::kCompute ? options_.compute_threads
                        : id == StreamId::kHostCompute
                            ? options_.host_compute_threads
                            : 1;
    streams_[i] = std::make_unique<Stream>(threads);
    next_wanted_[i].store(std::numeric_limits<int64_t>::max());
  }
  // Only now: a worker may look at any stream's counter.
  for (int i = 0; i < kNumStreams; ++i) {
    streams_[i]->worker =
        std::thread([this, i] { WorkerLoop(static_cast<StreamId>(i)); });
  }
}

HostDevice::~HostDevice() {
  for (auto& stream : streams_) {
    {
      std::lock_guard<std::mutex> lock(stream->mutex);
      stream->stop = true;
    }
    stream->filled.notify_one();
  }
  // A worker ends when its queue is empty; what it waits for on other streams
  // is queued already, so all of them come to an end.
  for (auto& stream : streams_) stream->worker.join();
  munmap(memory_, mapped_bytes_);
}

Fence HostDevice::Push(StreamId id, Item item) {
  Stream& stream = *streams_[static_cast<int>(id)];
  bool wake;
  const int64_t count = stream.queued.load(std::memory_order_relaxed) + 1;
  {
    std::lock_guard<std::mutex> lock(stream.mutex);
    stream.queue.push_back(std::move(item));
    stream.queued.store(count, std::memory_order_release);
    wake = std::exchange(stream.sleeping, false);
  }
  if (wake) stream.filled.notify_one();
  return Fence(id, count);
}

Fence HostDevice::Enqueue(StreamId id, int64_t tag, Work work) {
  Item item;
  item.kind = Item::Kind::kWork;
  item.tag = tag;
  item.work = std::move(work);
  return Push(id, std::move(item));
}

Fence HostDevice::Copy(StreamId id, int64_t tag, void* dst, const void* src,
                       int64_t bytes) {
  CASTOR_CHECK(bytes >= 0);
  Item item;
  item.kind = Item::Kind::kCopy;
  item.tag = tag;
  item.dst = dst;
  item.src = src;
  item.bytes = bytes;
  if (CrossesBus(id) && options_.bus_bytes_per_s > 0) {
    item.queued_ns = SteadyNs();
  }
  return Push(id, std::move(item));
}

void HostDevice::Wait(StreamId id, const Fence& fence, int64_t tag) {
  // What lies on the stream itself is in order anyway, and what is reached
  // already was seen by this thread, whose later work the worker sees in turn.
  Fence rest;
  for (int i = 0; i < kNumStreams; ++i) {
    const StreamId other = static_cast<StreamId>(i);
    if (other == id) continue;
    const int64_t count = fence.count(other);
    CASTOR_CHECK(count <=
                 streams_[i]->queued.load(std::memory_order_relaxed));
    if (count > streams_[i]->completed.load(std::memory_order_acquire)) {
      rest.Add(other, count);
    }
  }
  if (rest == Fence()) return;
  Item item;
  item.kind = Item::Kind::kWait;
  item.tag = tag;
  item.fence = rest;
  // Counts as an item of the stream: whoever waits for Now(id) from here on
  // waits for `fence` too.
  Push(id, std::move(item));
}

Fence HostDevice::Now(StreamId id) const {
  return Fence(id, streams_[static_cast<int>(id)]->queued.load(
                       std::memory_order_relaxed));
}

bool HostDevice::Reached(const Fence& fence) const {
  for (int i = 0; i < kNumStreams; ++i) {
    const int64_t count = fence.count(static_cast<StreamId>(i));
    if (count > 0 && count > streams_[i]->completed.load()) return false;
  }
  return true;
}

absl::Status HostDevice::Synchronize(const Fence& fence) {
  for (int i = 0; i < kNumStreams; ++i) {
    CASTOR_CHECK(fence.count(static_cast<StreamId>(i)) <=
                 streams_[i]->queued.load(std::memory_order_relaxed));
  }
  BlockUntilReached(fence);
  for (int i = 0; i < kNumStreams; ++i) {
    if (fence.count(static_cast<StreamId>(i)) == 0) continue;
    std::lock_guard<std::mutex> lock(streams_[i]->mutex);
    if (!streams_[i]->failure.ok()) return streams_[i]->failure;
  }
  return absl::OkStatus();
}

int64_t HostDevice::NowNs() const { return SteadyNs(); }

bool HostDevice::BlockUntilReached(const Fence& fence) {
  if (Reached(fence)) return false;
  if (SpinUntil([&] { return Reached(fence); })) return true;
  Sleeper self = {.fence = &fence, .reached = {}};
  std::unique_lock<std::mutex> lock(sleepers_mutex_);
  sleepers_.push_back(&self);
  // Sequentially consistent, as is the worker's pair (counter, then
  // next_wanted_): either we see the counter or the worker sees us.
  WakeReached();
  self.reached.wait(lock, [&] { return Reached(fence); });
  sleepers_.erase(std::find(sleepers_.begin(), sleepers_.end(), &self));
  return true;
}

void HostDevice::WakeReached() {
  for (int i = 0; i < kNumStreams; ++i) {
    int64_t least = std::numeric_limits<int64_t>::max();
    const int64_t completed = streams_[i]->completed.load();
    for (const Sleeper* sleeper : sleepers_) {
      const int64_t count = sleeper->fence->count(static_cast<StreamId>(i));
      if (count > completed) least = std::min(least, count);
    }
    next_wanted_[i].store(least);
  }
  for (Sleeper* sleeper : sleepers_) {
    if (Reached(*sleeper->fence)) sleeper->reached.notify_one();
  }
}

void HostDevice::CopyOverBus(Stream& stream, const Item& item) {
  const double ns_per_byte = 1e9 / options_.bus_bytes_per_s;
  const int64_t now_ns = SteadyNs();
  // Back to back with the copy before it, or with a fresh start.
  const int64_t start_ns =
      item.queued_ns <= stream.bus_due_ns
          ? std::max(stream.bus_due_ns, now_ns - kCatchUpNs)
          : now_ns;
  std::byte* const dst = static_cast<std::byte*>(item.dst);
  const std::byte* const src = static_cast<const std::byte*>(item.src);
  for (int64_t done = 0; done < item.bytes;) {
    const int64_t piece = std::min(kPieceBytes, item.bytes - done);
    std::memcpy(dst + done, src + done, piece);
    done += piece;
    const int64_t due_ns =
        start_ns + static_cast<int64_t>(std::ceil(done * ns_per_byte));
    if (done == item.bytes || due_ns - SteadyNs() > kWorthSleepingNs) {
      SleepUntilNs(due_ns);
    }
    stream.bus_due_ns = due_ns;
  }
}

absl::Status HostDevice::RunItem(StreamId id, const Item& item) {
  Stream& stream = *streams_[static_cast<int>(id)];
  if (item.kind == Item::Kind::kWork) {
    ExecContext context;
    context.pool = &stream.pool;
    return const_cast<Item&>(item).work(context);
  }
  if (item.bytes == 0) return absl::OkStatus();
  if (!CrossesBus(id)) {
    std::memmove(item.dst, item.src, item.bytes);
  } else if (options_.bus_bytes_per_s == 0) {
    std::memcpy(item.dst, item.src, item.bytes);
  } else {
    CopyOverBus(stream, item);
  }
  return absl::OkStatus();
}

void HostDevice::WorkerLoop(StreamId id) {
  Stream& stream = *streams_[static_cast<int>(id)];
  // The default slack rounds every sleep up by 50 us: too coarse for a bus.
  prctl(PR_SET_TIMERSLACK, 1);
  std::vector<Item> batch;
  int64_t completed = 0;
  while (true) {
    batch.clear();
    SpinUntil([&] {
      return stream.queued.load(std::memory_order_acquire) != completed;
    });
    {
      std::unique_lock<std::mutex> lock(stream.mutex);
      while (stream.queue.empty()) {
        if (stream.stop) return;
        stream.sleeping = true;
        stream.filled.wait(lock,
                           [&] { return !stream.sleeping || stream.stop; });
        stream.sleeping = false;
      }
      batch.swap(stream.queue);
    }
    for (Item& item : batch) {
      DeviceObserver* const observer = observer_.load();
      if (item.kind == Item::Kind::kWait) {
        const int64_t start_ns = observer == nullptr ? 0 : SteadyNs();
        const bool waited = BlockUntilReached(item.fence);
        if (waited) stream.bus_due_ns = 0;  // the bus was idle meanwhile
        if (waited && observer != nullptr) {
          observer->OnWait(id, completed + 1, item.tag, item.fence, start_ns,
                           SteadyNs());
        }
      } else if (!stream.failed) {
        const int64_t start_ns = observer == nullptr ? 0 : SteadyNs();
        absl::Status status = RunItem(id, item);
        if (observer != nullptr) {
          observer->OnWork(id, completed + 1, item.tag, start_ns, SteadyNs());
        }
        if (!status.ok()) {
          stream.failed = true;
          std::lock_guard<std::mutex> lock(stream.mutex);
          stream.failure = std::move(status);
        }
      }
      // Before the fence: what the work holds may die with its owner after it.
      item.work = nullptr;
      // Sequentially consistent, see BlockUntilReached.
      stream.completed.store(++completed);
      if (completed >= next_wanted_[static_cast<int>(id)].load()) {
        std::lock_guard<std::mutex> lock(sleepers_mutex_);
        WakeReached();
      }
    }
  }
}

}  // namespace castor
