// Allocates the host's memory under a budget: homes of payloads, optimizer
// states, staging.
//
// Invariants:
//  1. The bytes of all blocks never exceed the budget. Each is rounded up to
//     kBlockAlignment, as on the device and in the planner's sums. Blocks are
//     whole pages of the system, so up to one page per block more is resident
//     than is counted.
//  2. The *pinned pool* is one page-locked region, made once and never grown. A
//     block lies in it while it has room (first fit), else in pageable memory.
//     A part of it is reserved for homes (Category::kParameters), which cross
//     the bus most. Its pages, too, are taken only when they are touched, and
//     go back to the system with the block.
//
// A device whose copy engines need pages locked by the device's driver brings a
// HostPinner. All pages of its pool are taken when the pool is made, near the
// device, as huge pages where the system has them, and stay.
//
// Where the pool cannot be locked at one go (RLIMIT_MEMLOCK, or a driver's
// limit of a call), it is locked in parts, each half as large as the last one
// that failed, and is as large as these are together; a block lies in one of
// them. Where no part can be locked there is no pool: all blocks are pageable.
// If the pool is smaller than was asked for, pinned_note() says why and what to
// do.
//
// Threads: all methods, and destroying blocks, from any thread.
// Lifetime: blocks may outlive neither the HostMemory nor their users' work.
#ifndef CASTOR_MEMORY_EXEC_HOST_MEMORY_H_
#define CASTOR_MEMORY_EXEC_HOST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/free_ranges.h"
#include "device/host_pinner.h"
#include "memory/exec/category.h"

namespace castor {

class HostMemory;

// A block of host memory, page-aligned, zero at first. Move-only; destroying it
// frees the memory.
class HostBlock {
 public:
  HostBlock() = default;
  HostBlock(HostBlock&& other) noexcept { *this = std::move(other); }
  HostBlock& operator=(HostBlock&& other) noexcept;
  ~HostBlock() { Release(); }

  // Null for a default-constructed or moved-from block.
  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }  // as asked for
  bool pinned() const { return pinned_; }

 private:
  friend class HostMemory;
  void Release();

  HostMemory* owner_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  Category category_ = Category::kStaging;
  bool pinned_ = false;
};

struct HostMemoryOptions {
  int64_t budget_bytes = 0;  // kUnlimitedBytes: no limit but the system's
  // The pool's size, rounded up to pages; at most the budget. 0: no pool.
  int64_t pinned_bytes = 0;
  // The part of the pool that is kept for homes.
  int64_t pinned_home_bytes = 0;
  // Locks the pool's pages; null: the system does. Outlives the HostMemory.
  HostPinner* pinner = nullptr;
};

struct HostMemoryStats {
  BytesByCategory used;          // now
  BytesByCategory used_at_peak;  // when peak_bytes was first reached
  int64_t used_bytes = 0;        // sum of `used`
  int64_t peak_bytes = 0;
  int64_t pinned_used_bytes = 0;      // part of used_bytes
  int64_t pinned_capacity_bytes = 0;  // of all parts; 0: no pool
};

class HostMemory {
 public:
  // InvalidArgument: negative sizes; an unlimited pool under an unlimited
  // budget. A pool that cannot be locked is no error (see pinned_note).
  static absl::StatusOr<std::unique_ptr<HostMemory>> Create(
      const HostMemoryOptions& options);

  // All blocks must be gone.
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Allocates a block. 0 bytes count as kBlockAlignment. `owner` is for
  // messages. InvalidArgument: negative bytes. ResourceExhausted: the budget,
  // or the system, has no room; names wanted and free bytes.
  absl::StatusOr<HostBlock> Allocate(int64_t bytes, Category category,
                                     absl::string_view owner);

  int64_t budget_bytes() const { return options_.budget_bytes; }
  HostMemoryStats stats() const;
  // Says why there is no pinned pool of the size asked for; empty if there is
  // one.
  const std::string& pinned_note() const { return pinned_note_; }

 private:
  friend class HostBlock;

  // A part of the pool that was locked in one call.
  struct Part {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    FreeRanges<NoTime> free;  // by the offset in the part
  };

  explicit HostMemory(const HostMemoryOptions& options) : options_(options) {}
  void CreatePool(int64_t bytes);
  absl::Status LockPart(std::byte* data, int64_t bytes);
  // Returns null if no part has room. `bytes` is rounded to pages.
  std::byte* TakeFromPool(int64_t bytes, Category category);
  void GiveToPool(std::byte* data, int64_t bytes, Category category);
  void Release(HostBlock& block);

  const HostMemoryOptions options_;
  std::string pinned_note_;
  std::byte* mapping_ = nullptr;  // has all parts in it
  int64_t mapping_bytes_ = 0;

  mutable std::mutex mutex_;     // guards what follows
  std::vector<Part> parts_;      // by address
  int64_t pool_open_bytes_ = 0;  // left for blocks that are no homes
  HostMemoryStats stats_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_EXEC_HOST_MEMORY_H_
