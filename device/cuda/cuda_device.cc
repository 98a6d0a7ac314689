#include "device/cuda/cuda_device.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "base/units.h"
#include "device/cuda/locality.h"

namespace castor {

using cuda::Api;
using cuda::Lane;
using cuda::Slot;

namespace {

// The alignment of the arena's base that device.h promises.
constexpr uintptr_t kBaseAlignment = 4096;
// A move is cut into this many copies at most.
constexpr int64_t kMaxCopiesOfAMove = 32;
// The finisher's sleeps between two looks that bring nothing.
constexpr int64_t kShortestSleepNs = 5'000;
constexpr int64_t kLongestSleepNs = 50'000;

// A few threads copy as fast as a bus carries.
constexpr int kMostCopiers = 4;

bool IsHost(StreamId stream) { return stream == StreamId::kHostCompute; }

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(
    Api* api, const CudaDeviceOptions& options) {
  if (options.memory_bytes < 0 || options.memory_bytes >= kUnlimitedBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cuda device: memory of ", FormatBytes(options.memory_bytes), " (",
        options.memory_bytes, ") cannot be one block; give a size in bytes"));
  }
  if (options.host_compute_threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("cuda device: ", options.host_compute_threads,
                     " host compute threads; there must be at least 1"));
  }
  CASTOR_ASSIGN_OR_RETURN(const int devices, api->CountDevices());
  if (options.ordinal < 0 || options.ordinal >= devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("cuda device: there is no GPU ", options.ordinal,
                     "; this process sees ", devices, ", counted from 0"));
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice(api, options));
  CASTOR_RETURN_IF_ERROR(Annotate("cuda device", device->Open()));
  return device;
}

absl::Status CudaDevice::Open() {
  CASTOR_RETURN_IF_ERROR(api_->UseDevice(options_.ordinal));
  CASTOR_ASSIGN_OR_RETURN(properties_, api_->Properties(options_.ordinal));
  // Before anything runs, so that nothing is loaded beside it.
  CASTOR_RETURN_IF_ERROR(api_->LoadMove());
  if (options_.load_kernels != nullptr) {
    CASTOR_RETURN_IF_ERROR(options_.load_kernels());
  }
  const GpuContext shared = {
      .kernels = options_.kernels,
      .multiprocessors = properties_.multiprocessors,
      .compute_capability = properties_.compute_capability};
  copiers_ = std::make_unique<ThreadPool>(
      std::min(options_.host_compute_threads, kMostCopiers));
  CASTOR_RETURN_IF_ERROR(copiers_->status());
  for (int i = 0; i < kNumStreams; ++i) {
    const StreamId id = static_cast<StreamId>(i);
    if (IsHost(id)) continue;
    lanes_[i] = std::make_unique<Lane>(api_);
    CASTOR_RETURN_IF_ERROR(lanes_[i]->Open(
        id, shared, HandlesAtOnce(id) ? options_.compute_stream : std::nullopt,
        copiers_.get(), [this] { return NowNs(); }));
  }
  // The block comes after what the streams take, so that an arena that just
  // fits leaves room for them.
  const absl::Status memory = OpenMemory();
  if (absl::IsResourceExhausted(memory)) {
    int64_t free_bytes = 0, total_bytes = 0;
    CASTOR_RETURN_IF_ERROR(api_->MemoryInfo(&free_bytes, &total_bytes));
    return absl::ResourceExhaustedError(absl::StrCat(
        "no room for a block of ", FormatBytes(options_.memory_bytes), " (",
        options_.memory_bytes, " bytes) on the ", properties_.name, ": free ",
        FormatBytes(free_bytes), " of ", FormatBytes(total_bytes),
        "; lower memory.device_memory or stop what else uses the GPU"));
  }
  CASTOR_RETURN_IF_ERROR(memory);
  host_compute_pool_ =
      std::make_unique<ThreadPool>(options_.host_compute_threads);
  CASTOR_RETURN_IF_ERROR(host_compute_pool_->status());
  CASTOR_ASSIGN_OR_RETURN(finisher_, StartThread("the end of the GPU's work",
                                                 [this] { FinisherLoop(); }));
  return StartStreams();
}

absl::Status CudaDevice::OpenMemory() {
  memory_bytes_ = options_.memory_bytes;
  if (memory_bytes_ == 0) return absl::OkStatus();
  auto mapped = cuda::MappedMemory::Create(
      api_, options_.ordinal, memory_bytes_, properties_.memory_bytes);
  if (mapped.ok()) {
    mapped_ = *std::move(mapped);
    memory_ = mapped_->begin();
    return absl::OkStatus();
  }
  if (absl::IsResourceExhausted(mapped.status())) return mapped.status();
  auto memory = api_->Allocate(memory_bytes_);
  if (memory.ok() &&
      reinterpret_cast<uintptr_t>(*memory) % kBaseAlignment != 0) {
    // Small blocks may lie anywhere.
    api_->Free(*memory);
    memory = api_->Allocate(memory_bytes_ + kBaseAlignment);
  }
  CASTOR_RETURN_IF_ERROR(memory.status());
  allocation_ = *memory;
  memory_ = reinterpret_cast<std::byte*>(
      RoundUp(reinterpret_cast<int64_t>(allocation_), kBaseAlignment));
  return absl::OkStatus();
}

absl::Status CudaDevice::Resize(int64_t bytes) {
  if (mapped_ == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        "the memory of the ", properties_.name,
        " keeps the size that it was opened with: save, and resume with "
        "another memory.device_memory"));
  }
  CASTOR_RETURN_IF_ERROR(api_->UseDevice(options_.ordinal));
  CASTOR_RETURN_IF_ERROR(mapped_->Resize(bytes));
  memory_bytes_ = bytes;
  return absl::OkStatus();
}

absl::StatusOr<DeviceRoom> CudaDevice::Room() {
  CASTOR_RETURN_IF_ERROR(api_->UseDevice(options_.ordinal));
  DeviceRoom room;
  CASTOR_RETURN_IF_ERROR(api_->MemoryInfo(&room.free_bytes, &room.total_bytes));
  return room;
}

CudaDevice::~CudaDevice() {
  StopStreams();  // all is issued
  if (finisher_.joinable()) {
    {
      std::lock_guard<std::mutex> lock(finisher_mutex_);
      stop_ = true;
    }
    finisher_news_.notify_one();
    finisher_.join();  // all is over
  }
  (void)api_->UseDevice(options_.ordinal);
  for (auto& lane : lanes_) lane.reset();
  mapped_.reset();
  if (allocation_ != nullptr) api_->Free(allocation_);
}

void CudaDevice::Handle(StreamId id, StreamItem& item, int64_t count) {
  if (IsHost(id)) {
    RunOnHost(id, item, count, [&](StreamItem& it) -> absl::Status {
      if (it.kind == StreamItem::Kind::kWork) {
        return it.work(ExecContext{.pool = host_compute_pool_.get()});
      }
      if (it.bytes == 0) return absl::OkStatus();
      if (it.kind == StreamItem::Kind::kFill) {
        std::memset(it.dst, it.value, it.bytes);
      } else {
        std::memmove(it.dst, it.src, it.bytes);
      }
      return absl::OkStatus();
    });
    return;
  }
  Lane& lane = *lanes_[static_cast<int>(id)];
  // The GPU is the thread's own setting; where items are handled at once there
  // may be many threads.
  if (count == 1 || HandlesAtOnce(id)) {
    (void)api_->UseDevice(options_.ordinal);
  }
  // The slot's last item has to be over.
  if (count > cuda::kInFlight) {
    over().BlockUntilReached(Fence(id, count - cuda::kInFlight));
  }
  Slot& slot = lane.slot(count);
  slot.kind = item.kind;
  slot.tag = item.tag;
  slot.skipped = false;
  slot.launch_ns = NowNs();
  slot.name.Set("");
  if (item.kind == StreamItem::Kind::kWait) {
    slot.until = item.fence;
    lane.last_wait = count;
    const absl::Status waits = WaitForAll(lane, item.fence);
    if (!waits.ok()) Spoil(Annotate(StreamName(id), waits));
  } else if (failed(id)) {
    slot.skipped = true;
  } else {
    absl::Status status = Launch(id, lane, item, count);
    if (!status.ok()) Fail(id, std::move(status));
  }
  slot.work = std::move(item.work);
  absl::Status recorded = spoilt_.load(std::memory_order_relaxed)
                              ? absl::InternalError("spoilt")
                              : lane.room.Await(1);
  if (recorded.ok()) {
    recorded =
        api_->Record(slot.event.load(std::memory_order_relaxed), lane.stream);
  }
  slot.recorded = recorded.ok();
  if (!recorded.ok() && !spoilt_.load()) {
    Spoil(Annotate(absl::StrCat("first seen after ", slot.name.get(), " on ",
                                StreamName(id)),
                   recorded));
  }
  issued_.Advance(id, count);
  // Sequentially consistent with the finisher's pair (its flag, then a look at
  // the counts): it sees the count or we see the flag.
  if (finisher_sleeps_.exchange(false)) {
    std::lock_guard<std::mutex> lock(finisher_mutex_);
    finisher_news_.notify_one();
  }
}

absl::Status CudaDevice::Launch(StreamId id, Lane& lane, StreamItem& item,
                                int64_t count) {
  WorkName* const name = &lane.slot(count).name;
  switch (item.kind) {
    case StreamItem::Kind::kWork: {
      name->Set("a piece of work");
      GpuContext context = lane.context;
      context.name = name;
      context.fault = lane.faults_on_gpu + count % cuda::kInFlight;
      const auto finish = [&] {
        over().BlockUntilReached(Fence(id, count - 1));
      };
      const absl::FunctionRef<void()> finish_earlier = finish;
      context.finish_earlier = &finish_earlier;
      const auto await = [&](int64_t launches) {
        (void)lane.room.Await(launches);  // the launch itself fails then, too
      };
      const absl::FunctionRef<void(int64_t)> before_launches = await;
      context.before_launches = &before_launches;
      int open_ranges = 0;
      const auto begin = [&](const char* range) {
        api_->BeginRange(range);
        ++open_ranges;
      };
      const absl::FunctionRef<void(const char*)> begin_range = begin;
      context.begin_range = &begin_range;
      absl::Status status =
          item.work(ExecContext{.pool = &launch_pool_, .gpu = &context});
      for (; open_ranges > 0; --open_ranges) api_->EndRange();
      return status;
    }
    case StreamItem::Kind::kCopy:
      name->Set("a copy");
      if (item.bytes == 0) return absl::OkStatus();
      return CopyItem(id, lane, item);
    case StreamItem::Kind::kFill:
      name->Set("a fill");
      if (item.bytes == 0) return absl::OkStatus();
      CASTOR_RETURN_IF_ERROR(lane.room.Await(1));
      return api_->Fill(item.dst, item.value, item.bytes, lane.stream);
    case StreamItem::Kind::kWait:
      break;
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::CopyItem(StreamId id, Lane& lane,
                                  const StreamItem& item) {
  const bool to_device = OnDevice(item.dst);
  const bool from_device = OnDevice(item.src);
  if (to_device && from_device) return MoveOnDevice(lane, item);
  if (!to_device && !from_device) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a copy of ", item.bytes, " bytes on ", StreamName(id),
        " has neither its source nor its destination on the device"));
  }
  const bool pinned = IsPinned(to_device ? item.src : item.dst, item.bytes);
  if (to_device && !pinned && id != StreamId::kCompute) {
    // The host reads the source now, not when the stream gets there: what the
    // stream was to wait for before it has to be over. (An operator's input is
    // there already.)
    over().BlockUntilReached(Fence(id, lane.last_wait));
  }
  if (pinned || lane.ring == nullptr) {
    CASTOR_RETURN_IF_ERROR(lane.room.Await(1));
    return api_->Copy(item.dst, item.src, item.bytes, lane.stream);
  }
  CASTOR_RETURN_IF_ERROR(lane.room.Await(lane.ring->most_queued()));
  return from_device
             ? lane.ring->ToHost(item.dst, item.src, item.bytes, lane.stream)
             : lane.ring->FromHost(item.dst, item.src, item.bytes, lane.stream);
}

absl::Status CudaDevice::MoveOnDevice(Lane& lane, const StreamItem& item) {
  auto* const dst = static_cast<std::byte*>(item.dst);
  const auto* const src = static_cast<const std::byte*>(item.src);
  const int64_t distance = std::abs(dst - src);
  if (distance == 0) return absl::OkStatus();
  if (distance >= item.bytes) {
    CASTOR_RETURN_IF_ERROR(lane.room.Await(1));
    return api_->Copy(dst, src, item.bytes, lane.stream);
  }
  if (CeilDiv(item.bytes, distance) > kMaxCopiesOfAMove) {
    CASTOR_RETURN_IF_ERROR(lane.room.Await(1));
    return api_->Move(dst, src, item.bytes, lane.stream);
  }
  // The move begins at the end that it goes to, in pieces that do not reach
  // themselves.
  const bool up = dst < src;
  for (int64_t done = 0; done < item.bytes; done += distance) {
    const int64_t size = std::min(distance, item.bytes - done);
    const int64_t at = up ? done : item.bytes - done - size;
    CASTOR_RETURN_IF_ERROR(lane.room.Await(1));
    CASTOR_RETURN_IF_ERROR(api_->Copy(dst + at, src + at, size, lane.stream));
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::WaitForAll(Lane& lane, const Fence& fence) {
  for (int i = 0; i < kNumStreams; ++i) {
    const StreamId id = static_cast<StreamId>(i);
    const int64_t count = fence.count(id);
    if (count == 0) continue;
    if (IsHost(id)) {
      over().BlockUntilReached(Fence(id, count));
      continue;
    }
    issued_.BlockUntilReached(Fence(id, count));
    if (over().count(id) >= count) continue;
    // If the item is over by now, and its event in use for one kInFlight
    // further on, this waits for that one: too long, but not in a circle, since
    // it is issued.
    CASTOR_RETURN_IF_ERROR(lane.room.Await(1));
    const Slot& slot = lanes_[i]->slot(count);
    CASTOR_RETURN_IF_ERROR(
        api_->WaitFor(lane.stream, slot.event.load(std::memory_order_relaxed)));
  }
  return absl::OkStatus();
}

void CudaDevice::FinisherLoop() {
  prctl(PR_SET_TIMERSLACK, 1);
  (void)api_->UseDevice(options_.ordinal);
  int64_t sleep_ns = kShortestSleepNs;
  const auto in_flight = [&] {
    for (int i = 0; i < kNumStreams; ++i) {
      if (lanes_[i] != nullptr &&
          lanes_[i]->finished < issued_.count(static_cast<StreamId>(i))) {
        return true;
      }
    }
    return false;
  };
  while (true) {
    bool progress = false;
    for (int i = 0; i < kNumStreams; ++i) {
      if (lanes_[i] == nullptr) continue;
      progress |= FinishOver(static_cast<StreamId>(i));
    }
    if (progress) {
      sleep_ns = kShortestSleepNs;
      continue;
    }
    if (in_flight()) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns));
      sleep_ns = std::min(2 * sleep_ns, kLongestSleepNs);
      continue;
    }
    std::unique_lock<std::mutex> lock(finisher_mutex_);
    finisher_sleeps_.store(true);
    // See Handle.
    if (in_flight()) {
      finisher_sleeps_.store(false);
      continue;
    }
    if (stop_) return;
    finisher_news_.wait(lock,
                        [&] { return !finisher_sleeps_.load() || stop_; });
    finisher_sleeps_.store(false);
  }
}

bool CudaDevice::FinishOver(StreamId id) {
  Lane& lane = *lanes_[static_cast<int>(id)];
  const int64_t issued = issued_.count(id);
  bool any = false;
  while (lane.finished < issued) {
    Slot& slot = lane.slot(lane.finished + 1);
    absl::Status event;
    if (slot.recorded && !spoilt_.load()) {
      bool reached = false;
      event = api_->Query(slot.event.load(std::memory_order_relaxed), &reached);
      if (event.ok() && !reached) break;
    }
    EndItem(id, slot, ++lane.finished, event);
    any = true;
  }
  return any;
}

void CudaDevice::EndItem(StreamId id, Slot& slot, int64_t count,
                         const absl::Status& event) {
  Lane& lane = *lanes_[static_cast<int>(id)];
  if (!event.ok()) {
    Spoil(Annotate(
        absl::StrCat("first seen at ", slot.name.get(), " on ", StreamName(id)),
        event));
  } else if (GpuFault& fault = lane.faults[count % cuda::kInFlight];
             __atomic_load_n(&fault.code, __ATOMIC_ACQUIRE) != 0) {
    absl::Status why = options_.describe_fault != nullptr
                           ? options_.describe_fault(fault)
                           : absl::InternalError(absl::StrCat(
                                 "a kernel's fault, number ", fault.code));
    Fail(id, Annotate(slot.name.get(), why));
    fault = GpuFault();  // the slot's next work has none
  }
  const int64_t now_ns = NowNs();
  const int64_t earliest_ns = std::max(slot.launch_ns, lane.last_end_ns);
  int64_t end_ns = now_ns;
  if (event.ok() && slot.recorded && !spoilt_.load()) {
    end_ns = lane.clock.TimeOf(slot.event, earliest_ns, now_ns);
  }
  DeviceObserver* const told = observer();
  if (told == nullptr || slot.skipped) {
    // Nobody to tell.
  } else if (slot.kind != StreamItem::Kind::kWait) {
    told->OnWork(id, count, slot.tag, earliest_ns, end_ns);
  } else if (end_ns - earliest_ns > cuda::kNoiseNs) {
    told->OnWait(id, count, slot.tag, slot.until, earliest_ns, end_ns);
  }
  lane.last_end_ns = end_ns;
  slot.work = nullptr;
  Finish(id, count);
}

void CudaDevice::Spoil(const absl::Status& why) {
  // If two failures come at once, it does not matter which one is told.
  if (spoilt_.exchange(true)) return;
  for (int i = 0; i < kNumStreams; ++i) {
    if (lanes_[i] != nullptr) Fail(static_cast<StreamId>(i), why);
  }
}

bool CudaDevice::OnDevice(const void* data) const {
  const auto* const at = static_cast<const std::byte*>(data);
  return memory_ <= at && at < memory_ + memory_bytes_;
}

absl::Status CudaDevice::PinHost(void* data, int64_t bytes) {
  cuda::BindNear(properties_.pci_bus_id, data, bytes);
  CASTOR_RETURN_IF_ERROR(api_->UseDevice(options_.ordinal));
  const absl::Status status = api_->RegisterHost(data, bytes);
  if (!status.ok()) return status;
  auto* const begin = static_cast<const std::byte*>(data);
  std::lock_guard<std::mutex> lock(pinned_mutex_);
  pinned_.push_back({begin, begin + bytes});
  return absl::OkStatus();
}

void CudaDevice::UnpinHost(void* data) {
  {
    std::lock_guard<std::mutex> lock(pinned_mutex_);
    const auto it = std::find_if(
        pinned_.begin(), pinned_.end(),
        [&](const PinnedRange& range) { return range.begin == data; });
    CASTOR_CHECK(it != pinned_.end());
    pinned_.erase(it);
  }
  api_->UnregisterHost(data);
}

bool CudaDevice::IsPinned(const void* data, int64_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(data);
  std::lock_guard<std::mutex> lock(pinned_mutex_);
  return std::any_of(
      pinned_.begin(), pinned_.end(), [&](const PinnedRange& range) {
        return range.begin <= begin && begin + bytes <= range.end;
      });
}

}  // namespace castor
