// PyTorch's CPU allocator, with a count of what an engine holds.
//
// While an engine computes (its forward, backward or step), whatever is
// allocated, by any thread, counts as memory of the run's device: it is claimed
// from the run before it is there, and released after it is gone. What is
// allocated at other times is the host's and is not counted.
//
//   block: | header, 64 bytes | the tensor's bytes, aligned to 64 |
//
// A claim is of a whole block: 64 bytes, and the tensor's rounded up to 64.
//
// A storage that was made here may be resized when no engine is left, so that
// the allocator lives as long as the process.
#ifndef CASTOR_PYTHON_SHIM_ALLOCATOR_H_
#define CASTOR_PYTHON_SHIM_ALLOCATOR_H_

#include <memory>

#include "python/shim/account.h"

namespace castor::shim {

// The first InstallAllocator puts the allocator in place; as many calls of
// RemoveAllocator bring the previous one back.
void InstallAllocator();
void RemoveAllocator();

// From now on allocations count for `account`; null: for nobody.
void CountFor(std::shared_ptr<Account> account);

}  // namespace castor::shim

#endif  // CASTOR_PYTHON_SHIM_ALLOCATOR_H_
