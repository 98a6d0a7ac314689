#include "python/shim/account.h"

#include <c10/util/Exception.h>

#include "python/shim/core_library.h"

namespace castor::shim {

void Account::Claim(int64_t bytes) {
  std::shared_lock<std::shared_mutex> open(closing_);
  if (!Counts()) return;
  Check(Core().claim(run_, bytes));
  claimed_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

Account::Block Account::Allocate(int64_t bytes, void* stream) {
  std::shared_lock<std::shared_mutex> open(closing_);
  TORCH_CHECK(run_ != nullptr, "castor: this engine is closed");
  Block block = {run_, nullptr};
  Check(Core().allocate(run_, bytes, stream, &block.address));
  claimed_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return block;
}

void Account::Release(int64_t bytes) noexcept {
  std::shared_lock<std::shared_mutex> open(closing_);
  claimed_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (Counts()) Core().release(run_, bytes);
}

void Account::Close() {
  std::unique_lock<std::shared_mutex> closing(closing_);
  run_ = nullptr;
}

void Account::Check(castor_status status) {
  if (status == CASTOR_OK) return;
  const std::string message = Core().error();
  if (status == CASTOR_AGAIN) again_ = true;
  if (status == CASTOR_NOT_FINITE) not_finite_ = true;
  if (status == CASTOR_REFUSED) {
    const castor_refusal last = Core().last_refusal();
    std::lock_guard<std::mutex> lock(refusing_);
    if (!refusal_) {
      refusal_ = Refusal{message,
                         last.op != nullptr ? last.op : "",
                         last.peak_bytes,
                         last.resident_bytes,
                         last.smallest_device_budget_bytes,
                         last.exact != 0};
    }
  }
  TORCH_CHECK(false, message);
}

std::optional<Refusal> Account::TakeRefusal() {
  std::lock_guard<std::mutex> lock(refusing_);
  std::optional<Refusal> refusal;
  refusal.swap(refusal_);
  return refusal;
}

}  // namespace castor::shim
