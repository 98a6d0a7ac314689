#include "memory/exec/host_memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/units.h"
#include "memory/plan/plan.h"

namespace castor {
namespace {

// x86-64 has huge pages of this size, and so has arm64 with pages of 4 KiB.
constexpr int64_t kHugePageBytes = int64_t{2} << 20;
// A smaller part has room for few chunks.
constexpr int64_t kSmallestPartBytes = int64_t{16} << 20;

// Adjacent free ranges of a part are merged.
bool Always(NoTime, NoTime) { return true; }

int64_t PageBytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

// Returns the bytes that a block of `bytes` counts for.
int64_t Counted(int64_t bytes) {
  return std::max<int64_t>(kBlockAlignment, RoundUp(bytes, kBlockAlignment));
}

std::byte* MapPages(int64_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

// Locks pages as they are touched, not before: memory of the pool that no block
// uses costs nothing.
bool LockPages(std::byte* data, int64_t bytes) {
#ifdef MLOCK_ONFAULT
  return mlock2(data, bytes, MLOCK_ONFAULT) == 0;
#else
  return mlock(data, bytes) == 0;
#endif
}

}  // namespace

HostBlock& HostBlock::operator=(HostBlock&& other) noexcept {
  if (this == &other) return *this;
  Release();
  owner_ = std::exchange(other.owner_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  category_ = other.category_;
  pinned_ = std::exchange(other.pinned_, false);
  return *this;
}

void HostBlock::Release() {
  if (owner_ != nullptr) owner_->Release(*this);
  owner_ = nullptr;
  data_ = nullptr;
  size_ = 0;
  pinned_ = false;
}

absl::StatusOr<std::unique_ptr<HostMemory>> HostMemory::Create(
    const HostMemoryOptions& options) {
  if (options.budget_bytes < 0 || options.pinned_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "host memory: a budget of ", options.budget_bytes, " bytes, ",
        options.pinned_bytes, " of them pinned; sizes are at least 0"));
  }
  const int64_t pinned = std::min(options.pinned_bytes, options.budget_bytes);
  if (pinned >= kUnlimitedBytes) {
    return absl::InvalidArgumentError(
        "host memory: the pinned pool is made once, so it needs a size; set "
        "memory.pinned_memory");
  }
  std::unique_ptr<HostMemory> memory(new HostMemory(options));
  if (pinned > 0) memory->CreatePool(pinned);
  return memory;
}

absl::Status HostMemory::LockPart(std::byte* data, int64_t bytes) {
  if (options_.pinner != nullptr) return options_.pinner->PinHost(data, bytes);
  if (LockPages(data, bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(std::strerror(errno));
}

void HostMemory::CreatePool(int64_t bytes) {
  const int64_t wanted = RoundUp(bytes, PageBytes());
  // Map more addresses than needed, so that the pool can begin with a huge
  // page.
  mapping_bytes_ = wanted + kHugePageBytes;
  mapping_ = MapPages(mapping_bytes_);
  int64_t locked_bytes = 0;
  absl::Status failure;  // the first, which says most
  if (mapping_ == nullptr) {
    failure = absl::ResourceExhaustedError(std::strerror(errno));
  } else {
    std::byte* const pool = reinterpret_cast<std::byte*>(
        RoundUp(reinterpret_cast<int64_t>(mapping_), kHugePageBytes));
    // Huge pages: the device's copy engines and its driver look each page up,
    // and a pool whose pages stay wastes nothing by large ones.
    if (options_.pinner != nullptr) madvise(pool, wanted, MADV_HUGEPAGE);
    for (int64_t part_bytes = wanted; locked_bytes < wanted;) {
      std::byte* const data = pool + locked_bytes;
      part_bytes = std::min(part_bytes, wanted - locked_bytes);
      if (absl::Status locked = LockPart(data, part_bytes); locked.ok()) {
        parts_.push_back({.data = data, .bytes = part_bytes, .free = {}});
        parts_.back().free.Give(0, part_bytes, {}, Always);
        locked_bytes += part_bytes;
        continue;
      } else if (failure.ok()) {
        failure = std::move(locked);
      }
      if (part_bytes / 2 < kSmallestPartBytes) break;
      part_bytes = RoundUp(part_bytes / 2, kHugePageBytes);
    }
    // Gives back what the failed call may have locked.
    if (locked_bytes < wanted) {
      madvise(pool + locked_bytes, wanted - locked_bytes, MADV_DONTNEED);
    }
  }
  pool_open_bytes_ =
      std::max<int64_t>(0, locked_bytes - options_.pinned_home_bytes);
  stats_.pinned_capacity_bytes = locked_bytes;
  if (locked_bytes == wanted) return;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  pinned_note_ = absl::StrCat(
      locked_bytes == 0 ? "no pinned memory"
                        : absl::StrCat("only ", FormatBytes(locked_bytes),
                                       " of pinned memory"),
      ": locking ", FormatBytes(wanted), " failed (",
      std::string(failure.message()), ", limit ",
      limit.rlim_cur == RLIM_INFINITY
          ? "none"
          : FormatBytes(static_cast<int64_t>(
                std::min<rlim_t>(limit.rlim_cur, kUnlimitedBytes))),
      "); ", locked_bytes == 0 ? "copies use" : "copies of the rest use",
      " pageable memory",
      options_.pinner != nullptr ? " through a small pinned ring" : "",
      ". Raise the limit (ulimit -l) or lower memory.pinned_memory");
}

HostMemory::~HostMemory() {
  CASTOR_CHECK(stats_.used_bytes == 0);
  if (options_.pinner != nullptr) {
    for (const Part& part : parts_) options_.pinner->UnpinHost(part.data);
  }
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

absl::StatusOr<HostBlock> HostMemory::Allocate(int64_t bytes, Category category,
                                               absl::string_view owner) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("host memory: ", owner, " asks for ", bytes,
                     " bytes; a size is at least 0"));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t free = options_.budget_bytes - stats_.used_bytes;
  // Nothing that is larger fits, and rounding it could overflow.
  const int64_t counted = Counted(std::min(bytes, kUnlimitedBytes));
  if (counted > free) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "host memory: ", owner, " (", CategoryName(category), ") wants ",
        counted, " bytes (", FormatBytes(counted), "); free ", free, " of ",
        options_.budget_bytes, ", largest hole ", free, "; in use: ",
        stats_.used.ToString(), "; it takes a memory.host_memory of at least ",
        counted + stats_.used_bytes, " bytes"));
  }
  HostBlock block;
  const int64_t mapped = RoundUp(counted, PageBytes());
  block.data_ = TakeFromPool(mapped, category);
  if (block.data_ != nullptr) {
    block.pinned_ = true;
  } else {
    block.data_ = MapPages(mapped);
    if (block.data_ == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("host memory: the system has no room for ", owner, " (",
                       CategoryName(category), "), ", counted, " bytes (",
                       FormatBytes(counted), "): ", std::strerror(errno),
                       "; free ", free, " of the budget"));
    }
    // Huge pages save TLB misses in large streams of optimizer states.
    madvise(block.data_, mapped, MADV_HUGEPAGE);
  }
  block.owner_ = this;
  block.size_ = bytes;
  block.category_ = category;
  stats_.used[category] += counted;
  stats_.used_bytes += counted;
  if (block.pinned_) stats_.pinned_used_bytes += counted;
  if (stats_.used_bytes > stats_.peak_bytes) {
    stats_.peak_bytes = stats_.used_bytes;
    stats_.used_at_peak = stats_.used;
  }
  return block;
}

void HostMemory::Release(HostBlock& block) {
  const int64_t counted = Counted(block.size_);
  const int64_t mapped = RoundUp(counted, PageBytes());
  std::lock_guard<std::mutex> lock(mutex_);
  if (block.pinned_) {
    GiveToPool(block.data_, mapped, block.category_);
    stats_.pinned_used_bytes -= counted;
  } else {
    // At the limit of mappings the system cannot cut one in two to unmap this
    // block. Its pages are given back all the same; only addresses are lost.
    if (munmap(block.data_, mapped) != 0) {
      madvise(block.data_, mapped, MADV_DONTNEED);
    }
  }
  stats_.used[block.category_] -= counted;
  stats_.used_bytes -= counted;
}

std::byte* HostMemory::TakeFromPool(int64_t bytes, Category category) {
  const bool home = category == Category::kParameters;
  if (!home && bytes > pool_open_bytes_) return nullptr;
  for (Part& part : parts_) {
    const int64_t offset = part.free.FitLow(bytes, [](NoTime) { return true; });
    if (offset < 0) continue;
    part.free.Take(offset, bytes, [](NoTime) {});
    if (!home) pool_open_bytes_ -= bytes;
    return part.data + offset;
  }
  return nullptr;
}

void HostMemory::GiveToPool(std::byte* data, int64_t bytes, Category category) {
  if (category != Category::kParameters) pool_open_bytes_ += bytes;
  // The pages go back to the system; what is locked cannot be given back, so
  // they are unlocked for a moment. Should locking them again fail, they are
  // pageable from here on, which costs time, not correctness.
  if (options_.pinner != nullptr) {
    std::memset(data, 0, bytes);  // what a device has locked stays
  } else {
    munlock(data, bytes);
    if (madvise(data, bytes, MADV_DONTNEED) != 0) std::memset(data, 0, bytes);
    LockPages(data, bytes);
  }
  const auto part = std::prev(std::upper_bound(
      parts_.begin(), parts_.end(), data,
      [](std::byte* at, const Part& part) { return at < part.data; }));
  part->free.Give(data - part->data, bytes, {}, Always);
}

HostMemoryStats HostMemory::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

}  // namespace castor
