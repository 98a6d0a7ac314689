// PyTorch's CPU allocator, with a count of the memory that an engine holds.
//
// While an engine computes (its forward, backward or step), all allocations of
// the thread that is in it, and of autograd's threads for it, count as memory
// of the run's device: bytes are claimed from the run before they are
// allocated, and released after they are freed, by whatever thread. Memory that
// is allocated at other times, or by other threads, is the host's and is not
// counted.
//
//   block: | header, 64 bytes | the tensor's bytes, aligned to 64 |
//
// A claim is of a whole block: 64 bytes, and the tensor's rounded up to 64.
//
// While a model is made (MakeModelIn), memory that is allocated and not counted
// for an engine belongs to the model's Nursery. Its larger blocks are pages of
// their own, which the system has back as soon as they are freed. (The C
// library keeps bytes that are freed between two live blocks, and of a model
// that is handed over parameter by parameter it would keep nearly all.)
//
// A storage that was made here may be resized when no engine is left, so that
// the allocator lives as long as the process.
#ifndef CASTOR_PYTHON_SHIM_ALLOCATOR_H_
#define CASTOR_PYTHON_SHIM_ALLOCATOR_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "python/shim/account.h"

namespace castor::shim {

// The first InstallAllocator puts the allocator in place; as many calls of
// RemoveAllocator bring the previous one back.
void InstallAllocator();
void RemoveAllocator();

// Makes allocations count for `account` from now on; null: for nobody.
void CountFor(std::shared_ptr<Account> account);

// An account of the memory that was allocated while a model was made. Threads:
// any may call.
class Nursery {
 public:
  void Take(int64_t bytes) noexcept;
  void GiveBack(int64_t bytes) noexcept { live_bytes_.fetch_sub(bytes); }
  // The bytes of live blocks, and the most that there were at once, counted as
  // a claim counts them.
  int64_t live_bytes() const { return live_bytes_; }
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  std::atomic<int64_t> live_bytes_{0};
  std::atomic<int64_t> peak_bytes_{0};
};

// Says that a model is made from now on, as above; with null, that none is any
// more. The allocator must be in place.
void MakeModelIn(std::shared_ptr<Nursery> nursery);

}  // namespace castor::shim

#endif  // CASTOR_PYTHON_SHIM_ALLOCATOR_H_
