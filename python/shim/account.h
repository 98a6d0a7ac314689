// An account of the memory that a run counts as its device's, and of the run's
// refusals.
#ifndef CASTOR_PYTHON_SHIM_ACCOUNT_H_
#define CASTOR_PYTHON_SHIM_ACCOUNT_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "client/interface/castor_client.h"
#include "python/shim/forks.h"

namespace castor::shim {

// A castor_refusal that outlives the call.
struct Refusal {
  std::string message;
  std::string op;
  int64_t peak_bytes = 0;
  int64_t resident_bytes = 0;
  int64_t smallest_device_budget_bytes = 0;
  bool exact = false;
};

// A block of memory keeps the account of the run that it was claimed from, so
// that it may be freed after the run was closed. Threads: any may call.
class Account {
 public:
  explicit Account(castor_run* run) : run_(run) {}
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  // Throws c10::Error when the run has no room.
  void Claim(int64_t bytes);
  // Replaces Claim where the run is on a GPU: returns a block for work on
  // `stream`. The caller has to free its address with `run`.
  struct Block {
    castor_run* run = nullptr;
    void* address = nullptr;
  };
  Block Allocate(int64_t bytes, void* stream);
  // Notes that the caller has freed a block of Allocate.
  void Freed(int64_t bytes) noexcept {
    claimed_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  // Does nothing after Close, nor in a process that was forked.
  void Release(int64_t bytes) noexcept;
  // Waits for claims and releases that are under way. The run may be closed
  // afterwards.
  void Close();

  // Throws c10::Error with the core's message on this thread's last call, and
  // keeps the refusal, if it was one. Does nothing for CASTOR_OK.
  void Check(castor_status status);
  // The bytes that are claimed and not released.
  int64_t claimed_bytes() const {
    return claimed_bytes_.load(std::memory_order_relaxed);
  }
  // Returns true if a call gave CASTOR_AGAIN since this was last called.
  bool TakeAgain() { return again_.exchange(false); }
  // Does the same for CASTOR_NOT_FINITE.
  bool TakeNotFinite() { return not_finite_.exchange(false); }
  // Returns the first refusal since this was last called.
  std::optional<Refusal> TakeRefusal();

 private:
  // Returns false after Close, and in a process that was forked.
  bool Counts() const { return run_ != nullptr && forks_ == ForksSinceStart(); }

  std::shared_mutex closing_;
  castor_run* run_;  // null after Close
  const int forks_ = ForksSinceStart();
  std::atomic<int64_t> claimed_bytes_{0};
  std::atomic<bool> again_{false};
  std::atomic<bool> not_finite_{false};
  std::mutex refusing_;
  std::optional<Refusal> refusal_;
};

}  // namespace castor::shim

#endif  // CASTOR_PYTHON_SHIM_ACCOUNT_H_
