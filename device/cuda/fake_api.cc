#include "device/cuda/fake_api.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "device/cuda/guarded_memory.h"

namespace castor::cuda {
namespace {

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool Overlap(const void* a, const void* b, int64_t bytes) {
  return std::abs(static_cast<const char*>(a) - static_cast<const char*>(b)) <
         bytes;
}

}  // namespace

struct FakeApi::FakeStream {
  explicit FakeStream(FakeApi* api) : api(api) {}

  struct Item {
    std::function<void()> run;
    bool touches_memory;
  };

  FakeApi* const api;
  std::mutex mutex;
  std::condition_variable filled, drained;
  std::vector<Item> queue;
  int64_t queued = 0;  // in the queue, in the thread's hands or running
  bool stop = false;
  std::thread thread;

  void Push(std::function<void()> run, bool touches_memory = false) {
    const std::unique_lock<std::mutex> in_driver = api->InDriver();
    {
      std::unique_lock<std::mutex> lock(mutex);
      const int64_t limit = api->options_.queue_limit;
      while (limit > 0 && queued >= limit && !api->broken_.load()) {
        api->stood_still_.store(true);
        drained.wait_for(lock, std::chrono::milliseconds(1));
      }
      ++queued;
      int64_t most = api->most_queued_.load();
      while (most < queued &&
             !api->most_queued_.compare_exchange_weak(most, queued)) {
      }
      queue.push_back({std::move(run), touches_memory});
    }
    filled.notify_one();
  }
  void Done() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      --queued;
    }
    drained.notify_one();
  }
};

// A handle is a shared pointer to one: an event may be destroyed while work
// that is queued has still to reach it or waits for it.
struct FakeApi::FakeEvent {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t recorded = 0;  // records so far
  int64_t reached = 0;   // the last of them that was reached
  int64_t time_ns = 0;   // when

  static const std::shared_ptr<FakeEvent>& Of(Event handle) {
    return *static_cast<std::shared_ptr<FakeEvent>*>(handle);
  }
};

FakeApi::FakeApi(const FakeApiOptions& options) : options_(options) {}

FakeApi::~FakeApi() { CASTOR_CHECK(live_.load() == 0); }

absl::Status FakeApi::Health() const {
  return broken_.load() ? absl::InternalError(
                              "an illegal memory access was encountered (700)")
                        : absl::OkStatus();
}

std::unique_lock<std::mutex> FakeApi::InDriver() {
  return options_.queue_limit > 0 ? std::unique_lock<std::mutex>(driver_mutex_)
                                  : std::unique_lock<std::mutex>();
}

absl::StatusOr<int> FakeApi::CountDevices() {
  if (options_.devices == 0) {
    return absl::FailedPreconditionError("no GPU: no CUDA device is present");
  }
  return options_.devices;
}

absl::StatusOr<GpuProperties> FakeApi::Properties(int device) {
  CASTOR_CHECK(device < options_.devices);
  return GpuProperties{.name = "fake GPU",
                       .pci_bus_id = "0000:01:00.0",
                       .uuid = absl::StrCat("fake ", device),
                       .memory_bytes = options_.memory_bytes,
                       .multiprocessors = 4,
                       .compute_capability = options_.compute_capability,
                       .driver_version = "13.0",
                       .runtime_version = "13.0"};
}

absl::Status FakeApi::UseDevice(int) { return Health(); }

absl::Status FakeApi::MemoryInfo(int64_t* free_bytes, int64_t* total_bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  *free_bytes = options_.memory_bytes - used_bytes_;
  *total_bytes = options_.memory_bytes;
  return Health();
}

absl::StatusOr<void*> FakeApi::Allocate(int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > options_.memory_bytes - used_bytes_) {
    return absl::ResourceExhaustedError("out of memory (2)");
  }
  void* const memory = AllocateGuarded(bytes);
  allocations_[memory] = bytes;
  used_bytes_ += bytes;
  ++live_;
  return memory;
}

void FakeApi::Free(void* memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = allocations_.find(memory);
  CASTOR_CHECK(it != allocations_.end());
  used_bytes_ -= it->second;
  FreeGuarded(memory, it->second);
  allocations_.erase(it);
  --live_;
}

absl::StatusOr<int64_t> FakeApi::MappingGranularity(int) {
  if (options_.mapping_granularity > 0) return options_.mapping_granularity;
  return absl::UnimplementedError("the fake GPU has no virtual memory");
}

absl::StatusOr<void*> FakeApi::ReserveAddresses(int64_t bytes) {
  ++live_;
  return ReserveGuarded(bytes);
}

void FakeApi::FreeAddresses(void* at, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto piece = mapped_.lower_bound(at);
  CASTOR_CHECK(piece == mapped_.end() ||
               piece->first >= static_cast<char*>(at) + bytes);
  FreeGuarded(at, bytes);
  --live_;
}

absl::Status FakeApi::MapMemory(int, void* at, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CASTOR_CHECK(bytes % options_.mapping_granularity == 0);
  if (bytes > options_.memory_bytes - used_bytes_) {
    return absl::ResourceExhaustedError("out of memory (2)");
  }
  MapGuarded(at, bytes);
  CASTOR_CHECK(mapped_.emplace(at, bytes).second);
  used_bytes_ += bytes;
  ++live_;
  return absl::OkStatus();
}

void FakeApi::UnmapMemory(void* at, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto piece = mapped_.find(at);
  CASTOR_CHECK(piece != mapped_.end() && piece->second == bytes);
  UnmapGuarded(at, bytes);
  mapped_.erase(piece);
  used_bytes_ -= bytes;
  --live_;
}

void FakeApi::FreeAll() {
  while (!allocations_.empty()) Free(allocations_.begin()->first);
}

absl::StatusOr<void*> FakeApi::AllocatePinned(int64_t bytes, void** on_gpu) {
  void* const memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (absl::Status status = RegisterHost(memory, bytes); !status.ok()) {
    std::free(memory);
    return status;
  }
  std::memset(memory, 0, bytes);
  if (on_gpu != nullptr) *on_gpu = memory;
  return memory;
}

void FakeApi::FreePinned(void* memory) {
  UnregisterHost(memory);
  std::free(memory);
}

absl::Status FakeApi::RegisterHost(void* memory, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > options_.pinned_bytes - pinned_bytes_) {
    return absl::ResourceExhaustedError("out of memory (2)");
  }
  CASTOR_CHECK(pinned_.emplace(memory, bytes).second);
  pinned_bytes_ += bytes;
  ++live_;
  return absl::OkStatus();
}

void FakeApi::UnregisterHost(void* memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = pinned_.find(memory);
  CASTOR_CHECK(it != pinned_.end());
  pinned_bytes_ -= it->second;
  pinned_.erase(it);
  --live_;
}

absl::StatusOr<Api::Stream> FakeApi::CreateStream(bool) {
  auto* const stream = new FakeStream(this);
  ++live_;
  stream->thread = std::thread([this, stream] {
    std::mt19937_64 random(reinterpret_cast<uintptr_t>(stream));
    std::vector<FakeStream::Item> batch;
    OpenMemory memory;
    while (true) {
      batch.clear();
      memory.Close();
      {
        std::unique_lock<std::mutex> lock(stream->mutex);
        stream->filled.wait(
            lock, [&] { return !stream->queue.empty() || stream->stop; });
        if (stream->queue.empty()) return;
        batch.swap(stream->queue);
      }
      // Items behind the last one that touches memory find it closed. Closing
      // it between items costs much, and shows nothing while work follows.
      size_t memory_until = batch.size();
      while (memory_until > 0 && !batch[memory_until - 1].touches_memory) {
        --memory_until;
      }
      for (size_t i = 0; i < batch.size(); ++i) {
        FakeStream::Item& item = batch[i];
        if (options_.jitter_ns > 0 && random() % 16 == 0) {
          std::this_thread::sleep_for(
              std::chrono::nanoseconds(random() % options_.jitter_ns));
        }
        if (i >= memory_until) memory.Close();
        if (item.touches_memory) memory.Open();
        if (!broken_.load()) item.run();
        stream->Done();
      }
    }
  });
  return stream;
}

void FakeApi::DestroyStream(Stream handle) {
  auto* const stream = static_cast<FakeStream*>(handle);
  {
    std::lock_guard<std::mutex> lock(stream->mutex);
    stream->stop = true;
  }
  stream->filled.notify_one();
  stream->thread.join();
  delete stream;
  --live_;
}

absl::StatusOr<Api::Event> FakeApi::CreateEvent() {
  ++live_;
  ++events_made_;
  return new std::shared_ptr<FakeEvent>(std::make_shared<FakeEvent>());
}

void FakeApi::DestroyEvent(Event handle) {
  delete static_cast<std::shared_ptr<FakeEvent>*>(handle);
  --live_;
}

absl::Status FakeApi::Record(Event handle, Stream stream) {
  const std::shared_ptr<FakeEvent> event = FakeEvent::Of(handle);
  int64_t number;
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    number = ++event->recorded;
  }
  static_cast<FakeStream*>(stream)->Push([event, number] {
    std::lock_guard<std::mutex> lock(event->mutex);
    event->reached = number;
    event->time_ns = SteadyNs();
    event->changed.notify_all();
  });
  return Health();
}

absl::Status FakeApi::Query(Event handle, bool* over) {
  const std::unique_lock<std::mutex> in_driver = InDriver();
  const std::shared_ptr<FakeEvent> event = FakeEvent::Of(handle);
  std::lock_guard<std::mutex> lock(event->mutex);
  *over = event->reached == event->recorded;
  return Health();
}

absl::Status FakeApi::Synchronize(Event handle) {
  const std::shared_ptr<FakeEvent> event = FakeEvent::Of(handle);
  std::unique_lock<std::mutex> lock(event->mutex);
  while (event->reached != event->recorded && !broken_.load()) {
    event->changed.wait_for(lock, std::chrono::milliseconds(1));
  }
  return Health();
}

absl::Status FakeApi::WaitFor(Stream stream, Event handle) {
  const std::shared_ptr<FakeEvent> event = FakeEvent::Of(handle);
  int64_t number;
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    number = event->recorded;
  }
  static_cast<FakeStream*>(stream)->Push([this, event, number] {
    std::unique_lock<std::mutex> lock(event->mutex);
    while (event->reached < number && !broken_.load()) {
      event->changed.wait_for(lock, std::chrono::milliseconds(1));
    }
  });
  return Health();
}

absl::Status FakeApi::ElapsedMs(Event start, Event end, float* ms) {
  int64_t times[2];
  int i = 0;
  for (Event handle : {start, end}) {
    const std::shared_ptr<FakeEvent> event = FakeEvent::Of(handle);
    std::lock_guard<std::mutex> lock(event->mutex);
    CASTOR_CHECK(event->reached == event->recorded || broken_.load());
    times[i++] = event->time_ns;
  }
  *ms = static_cast<float>(static_cast<double>(times[1] - times[0]) *
                           (1 + options_.clock_drift) * 1e-6);
  return Health();
}

void FakeApi::Launch(Stream stream, std::function<void()> kernel) {
  static_cast<FakeStream*>(stream)->Push(std::move(kernel),
                                         /*touches_memory=*/true);
}

namespace {

// Open on this thread.
std::vector<std::string>& OpenRanges() {
  static thread_local std::vector<std::string> open;
  return open;
}

}  // namespace

void FakeApi::BeginRange(const char* name) { OpenRanges().push_back(name); }

void FakeApi::EndRange() {
  CASTOR_CHECK(!OpenRanges().empty());
  const std::lock_guard<std::mutex> lock(mutex_);
  ++ranges_[OpenRanges().back()];
  OpenRanges().pop_back();
}

std::map<std::string, int64_t> FakeApi::ranges() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ranges_;
}

absl::Status FakeApi::Copy(void* dst, const void* src, int64_t bytes,
                           Stream stream) {
  CASTOR_CHECK(!Overlap(dst, src, bytes));
  copied_bytes_ += bytes;
  Launch(stream, [=] { std::memcpy(dst, src, bytes); });
  return Health();
}

absl::Status FakeApi::Move(void* dst, const void* src, int64_t bytes,
                           Stream stream) {
  ++moves_;
  Launch(stream, [=] { std::memmove(dst, src, bytes); });
  return Health();
}

absl::Status FakeApi::Fill(void* dst, uint8_t value, int64_t bytes,
                           Stream stream) {
  Launch(stream, [=] { std::memset(dst, value, bytes); });
  return Health();
}

}  // namespace castor::cuda
