#include "python/shim/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <mutex>
#include <new>
#include <utility>

namespace castor::shim {
namespace {

constexpr size_t kAlignment = 64;

struct Header {
  int64_t counted_bytes = 0;  // 0: the host's
  std::shared_ptr<Account> account;
};
static_assert(sizeof(Header) <= kAlignment);

std::mutex counting;
std::shared_ptr<Account> counted_for;    // under `counting`
std::atomic<bool> counts_at_all{false};  // spares the host's allocations a lock

std::shared_ptr<Account> CountedFor() {
  if (!counts_at_all.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard<std::mutex> lock(counting);
  return counted_for;
}

void Free(void* data) {
  if (data == nullptr) return;
  c10::profiledCPUMemoryReporter().Delete(data);
  char* block = static_cast<char*>(data) - kAlignment;
  Header* header = std::launder(reinterpret_cast<Header*>(block));
  const int64_t counted_bytes = header->counted_bytes;
  const std::shared_ptr<Account> account = std::move(header->account);
  header->~Header();
  c10::free_cpu(block);
  if (account != nullptr) account->Release(counted_bytes);
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
    std::shared_ptr<Account> account = CountedFor();
    if (account != nullptr) account->Claim(static_cast<int64_t>(block_bytes));
    void* block = nullptr;
    try {
      block = c10::alloc_cpu(block_bytes);
    } catch (...) {
      if (account != nullptr) {
        account->Release(static_cast<int64_t>(block_bytes));
      }
      throw;
    }
    auto* header = new (block) Header;
    if (account != nullptr) {
      header->counted_bytes = static_cast<int64_t>(block_bytes);
      header->account = std::move(account);
    }
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
  counts_at_all.store(counted_for != nullptr, std::memory_order_release);
}

}  // namespace castor::shim
