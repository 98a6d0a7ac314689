#include "python/shim/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <sys/mman.h>

#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#include "python/shim/dispatch.h"

namespace castor::shim {
namespace {

constexpr size_t kAlignment = 64;
// A nursery's blocks from here on are pages of their own. Of the last one half
// is unused in the mean: 3 % of a block at most.
constexpr size_t kLeastPagesBytes = size_t{1} << 16;

struct Header {
  int64_t block_bytes = 0;           // header included
  std::shared_ptr<Account> account;  // null: the host's
  std::shared_ptr<Nursery> nursery;
  bool pages = false;  // of its own
};
static_assert(sizeof(Header) <= kAlignment);

std::mutex counting;
std::shared_ptr<Account> counted_for;    // under `counting`
std::shared_ptr<Nursery> making_in;      // under `counting`
std::atomic<bool> counts_at_all{false};  // spares the host's allocations a lock

// Gives a block's header to whom it counts for.
void FindOwner(Header& header) {
  if (!counts_at_all.load(std::memory_order_acquire)) return;
  std::lock_guard<std::mutex> lock(counting);
  if (WorksForListener()) header.account = counted_for;
  if (header.account == nullptr) header.nursery = making_in;
}

// Returns null where the system has no pages, or no more mappings.
void* MapPages(size_t bytes) {
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

void Free(void* data) {
  if (data == nullptr) return;
  c10::profiledCPUMemoryReporter().Delete(data);
  char* block = static_cast<char*>(data) - kAlignment;
  Header* there = std::launder(reinterpret_cast<Header*>(block));
  const Header header = std::move(*there);
  there->~Header();
  if (!header.pages) {
    c10::free_cpu(block);
  } else if (munmap(block, header.block_bytes) != 0) {
    madvise(block, header.block_bytes, MADV_DONTNEED);
  }
  if (header.account != nullptr) header.account->Release(header.block_bytes);
  if (header.nursery != nullptr) header.nursery->GiveBack(header.block_bytes);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &Free, device};
    TORCH_CHECK(bytes < SIZE_MAX / 2, "castor: a tensor of ", bytes,
                " bytes is too large");
    const size_t block_bytes =
        kAlignment + (bytes + kAlignment - 1) / kAlignment * kAlignment;
    Header header;
    header.block_bytes = static_cast<int64_t>(block_bytes);
    FindOwner(header);
    if (header.account != nullptr) header.account->Claim(header.block_bytes);
    void* block = nullptr;
    if (header.nursery != nullptr) {
      if (bytes >= kLeastPagesBytes) block = MapPages(block_bytes);
      header.pages = block != nullptr;
    }
    try {
      if (block == nullptr) block = c10::alloc_cpu(block_bytes);
    } catch (...) {
      if (header.account != nullptr) {
        header.account->Release(header.block_bytes);
      }
      throw;
    }
    if (header.nursery != nullptr) header.nursery->Take(header.block_bytes);
    new (block) Header(std::move(header));
    void* data = static_cast<char*>(block) + kAlignment;
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &Free, device};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &Free; }

  void copy_data(void* dest, const void* src,
                 std::size_t count) const override {
    default_copy_data(dest, src, count);
  }
};

std::mutex installing;
int engines = 0;                     // under `installing`
c10::Allocator* previous = nullptr;  // under `installing`

CountingAllocator* TheAllocator() {
  static auto* allocator = new CountingAllocator;
  return allocator;
}

}  // namespace

void InstallAllocator() {
  std::lock_guard<std::mutex> lock(installing);
  if (engines++ > 0) return;
  previous = c10::GetCPUAllocator();
  c10::SetCPUAllocator(TheAllocator());
}

void RemoveAllocator() {
  std::lock_guard<std::mutex> lock(installing);
  if (--engines > 0) return;
  // Somebody else may have put an allocator over this one.
  if (c10::GetCPUAllocator() == TheAllocator()) c10::SetCPUAllocator(previous);
}

void CountFor(std::shared_ptr<Account> account) {
  std::lock_guard<std::mutex> lock(counting);
  counted_for = std::move(account);
  counts_at_all.store(counted_for != nullptr || making_in != nullptr,
                      std::memory_order_release);
}

void MakeModelIn(std::shared_ptr<Nursery> nursery) {
  std::lock_guard<std::mutex> lock(counting);
  making_in = std::move(nursery);
  counts_at_all.store(counted_for != nullptr || making_in != nullptr,
                      std::memory_order_release);
}

void Nursery::Take(int64_t bytes) noexcept {
  const int64_t live = live_bytes_.fetch_add(bytes) + bytes;
  int64_t peak = peak_bytes_;
  while (live > peak && !peak_bytes_.compare_exchange_weak(peak, live)) {
  }
}

}  // namespace castor::shim
