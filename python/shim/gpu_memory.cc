#include "python/shim/gpu_memory.h"

#include <c10/util/Exception.h>

#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "python/shim/core_library.h"

namespace castor::shim {
namespace {

struct Owner {
  std::shared_ptr<Account> account;
  castor_run* run = nullptr;
  int64_t bytes = 0;
};

std::mutex owning;
// By address; blocks that are CUDA's own are not here. It is never destroyed:
// tensors are freed until the process is gone.
std::unordered_map<void*, Owner>& Owners() {
  static auto* owners = new std::unordered_map<void*, Owner>;
  return *owners;
}
std::shared_ptr<Account> allocating;  // under `owning`
int allocating_on = 0;                // under `owning`

}  // namespace

void AllocateFor(std::shared_ptr<Account> account, int gpu) {
  std::lock_guard<std::mutex> lock(owning);
  allocating = std::move(account);
  allocating_on = gpu;
}

}  // namespace castor::shim

using castor::shim::Account;
using castor::shim::Core;

void* castor_cuda_alloc(ssize_t bytes, int gpu, void* stream) {
  if (bytes == 0) return nullptr;
  std::shared_ptr<Account> account;
  {
    std::lock_guard<std::mutex> lock(castor::shim::owning);
    if (castor::shim::allocating_on == gpu) account = castor::shim::allocating;
  }
  if (account == nullptr) {
    void* address = nullptr;
    TORCH_CHECK_WITH(OutOfMemoryError,
                     Core().gpu_allocate(gpu, bytes, &address) == CASTOR_OK,
                     "castor: no room for ", bytes,
                     " bytes on the GPU outside of the engine (",
                     Core().error(),
                     "); a lower memory.device_memory leaves more");
    return address;
  }
  // Not under the lock: a run may wait for work, and for other threads.
  const Account::Block block = account->Allocate(bytes, stream);
  std::lock_guard<std::mutex> lock(castor::shim::owning);
  castor::shim::Owners().emplace(
      block.address, castor::shim::Owner{std::move(account), block.run, bytes});
  return block.address;
}

void castor_cuda_free(void* address, ssize_t, int gpu, void*) {
  if (address == nullptr) return;
  std::optional<castor::shim::Owner> owner;
  {
    std::lock_guard<std::mutex> lock(castor::shim::owning);
    auto& owners = castor::shim::Owners();
    const auto found = owners.find(address);
    if (found != owners.end()) {
      owner = std::move(found->second);
      owners.erase(found);
    }
  }
  if (!owner) {
    Core().gpu_free(gpu, address);
    return;
  }
  Core().free(owner->run, address);
  owner->account->Freed(owner->bytes);
}

void castor_cuda_use_on(void* address, void* stream) {
  castor_run* run = nullptr;
  {
    std::lock_guard<std::mutex> lock(castor::shim::owning);
    auto& owners = castor::shim::Owners();
    const auto found = owners.find(address);
    if (found == owners.end()) return;  // CUDA waits before it frees a block
    run = found->second.run;
  }
  Core().use_on(run, address, stream);
}
