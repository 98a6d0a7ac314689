#include "device/host/host_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/check.h"
#include "base/spin_wait.h"
#include "base/status_macros.h"
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
// The longest time by which a copy may start earlier to make up for a late end
// of the one before it.
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
    return absl::InvalidArgumentError(
        absl::StrCat("host device: ", options.compute_threads,
                     " compute threads and ", options.host_compute_threads,
                     " host compute threads; each must be at least 1"));
  }
  if (!std::isfinite(options.bus_bytes_per_s) || options.bus_bytes_per_s < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("host device: a bus of ", options.bus_bytes_per_s,
                     " bytes/s; give a positive speed, or 0 for no limit"));
  }
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t least = RoundUp(options.memory_bytes, page) + page;
  int64_t mapped = std::max(
      least,
      RoundUp(std::min(options.most_memory_bytes, kUnlimitedBytes / 2), page) +
          page);
  const auto map = [&mapped] {
    return mmap(nullptr, mapped, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* block = map();
  if (block == MAP_FAILED && mapped > least) {
    mapped = least;
    block = map();
  }
  if (block == MAP_FAILED) {
    const int error = errno;
    return absl::ResourceExhaustedError(absl::StrCat(
        "host device: no room for a block of ",
        FormatBytes(options.memory_bytes), " (", options.memory_bytes,
        " bytes): ", std::strerror(error),
        "; lower memory.device_memory or raise the process's address limit"));
  }
  std::unique_ptr<HostDevice> device(
      new HostDevice(options, static_cast<std::byte*>(block), mapped));
  if (options.card.bytes > 0) {
    CASTOR_ASSIGN_OR_RETURN(
        device->card_,
        EmulatedCard::Open(options.card.bytes, options.card.folder));
  }
  CASTOR_RETURN_IF_ERROR(
      Annotate("host device", device->Resize(options.memory_bytes)));
  CASTOR_RETURN_IF_ERROR(Annotate("host device", device->StartWorkers()));
  return device;
}

absl::Status HostDevice::Resize(int64_t bytes) {
  const int64_t before = memory_bytes_;
  if (card_ != nullptr && bytes > before) {
    CASTOR_RETURN_IF_ERROR(card_->Take(bytes));
  }
  const absl::Status resized = ResizeBlock(bytes);
  if (card_ != nullptr && memory_bytes_ < std::max(bytes, before)) {
    CASTOR_RETURN_IF_ERROR(card_->Take(memory_bytes_));
  }
  return resized;
}

absl::StatusOr<DeviceRoom> HostDevice::Room() {
  if (card_ != nullptr) return card_->Room();
  return absl::FailedPreconditionError(
      "nobody has said how much memory the emulated card has (device.memory)");
}

absl::Status HostDevice::ResizeBlock(int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  if (bytes < 0 || bytes > mapped_bytes_ - page) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no addresses for a block of ", bytes, " bytes: ", mapped_bytes_ - page,
        " are kept for it; ask for less, or for all that is of "
        "use (\"unlimited\")"));
  }
  const int64_t open_bytes = RoundUp(bytes, page);
  if (open_bytes > open_bytes_) CASTOR_RETURN_IF_ERROR(OpenPages(open_bytes));
  if (open_bytes < open_bytes_) {
    std::byte* const end = memory_ + open_bytes;
    // Memory goes back first: that works always. Closing pages makes one more
    // mapping, of which the system allows so many: where it fails, they stay
    // open.
    madvise(end, open_bytes_ - open_bytes, MADV_DONTNEED);
    if (mprotect(end, open_bytes_ - open_bytes, PROT_NONE) == 0) {
      open_bytes_ = open_bytes;
    }
  }
  memory_bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status HostDevice::OpenPages(int64_t bytes) {
  if (mprotect(memory_ + open_bytes_, bytes - open_bytes_,
               PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    return absl::ResourceExhaustedError(
        absl::StrCat("the system has no ", FormatBytes(bytes), " (", bytes,
                     " bytes) for the block: ", std::strerror(error),
                     "; lower memory.device_memory, or raise vm.max_map_count "
                     "where the machine has the memory"));
  }
  open_bytes_ = bytes;
  // Huge pages save page faults and TLB misses; the kernel may decline.
  madvise(memory_, open_bytes_, MADV_HUGEPAGE);
  return absl::OkStatus();
}

absl::Status HostDevice::StartWorkers() {
  for (int i = 0; i < kNumStreams; ++i) {
    const StreamId id = static_cast<StreamId>(i);
    const int threads = id == StreamId::kCompute ? options_.compute_threads
                        : id == StreamId::kHostCompute
                            ? options_.host_compute_threads
                            : 1;
    workers_[i] = std::make_unique<Worker>(threads);
    CASTOR_RETURN_IF_ERROR(workers_[i]->pool.status());
  }
  return StartStreams();
}

HostDevice::~HostDevice() {
  StopStreams();
  munmap(memory_, mapped_bytes_);
}

bool HostDevice::WantsQueuedNs(StreamId id) const {
  return CrossesBus(id) && options_.bus_bytes_per_s > 0;
}

void HostDevice::CopyOverBus(Worker& worker, const StreamItem& item) {
  const double ns_per_byte = 1e9 / options_.bus_bytes_per_s;
  const int64_t now_ns = SteadyNs();
  // Back to back with the copy before it, or with a fresh start.
  const int64_t start_ns =
      item.queued_ns <= worker.bus_due_ns
          ? std::max(worker.bus_due_ns, now_ns - kCatchUpNs)
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
    worker.bus_due_ns = due_ns;
  }
}

absl::Status HostDevice::RunItem(StreamId id, Worker& worker,
                                 StreamItem& item) {
  if (item.kind == StreamItem::Kind::kWork) {
    ExecContext context;
    context.pool = &worker.pool;
    return item.work(context);
  }
  if (item.bytes == 0) return absl::OkStatus();
  if (item.kind == StreamItem::Kind::kFill) {
    std::memset(item.dst, item.value, item.bytes);
  } else if (!CrossesBus(id)) {
    std::memmove(item.dst, item.src, item.bytes);
  } else if (options_.bus_bytes_per_s == 0) {
    std::memcpy(item.dst, item.src, item.bytes);
  } else {
    CopyOverBus(worker, item);
  }
  return absl::OkStatus();
}

void HostDevice::Handle(StreamId id, StreamItem& item, int64_t count) {
  Worker& worker = *workers_[static_cast<int>(id)];
  const bool waited = RunOnHost(
      id, item, count, [&](StreamItem& it) { return RunItem(id, worker, it); });
  if (waited) worker.bus_due_ns = 0;  // the bus was idle meanwhile
}

}  // namespace castor
