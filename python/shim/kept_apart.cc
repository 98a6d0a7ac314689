#include "python/shim/kept_apart.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <utility>

#include "python/shim/storage_access.h"

namespace castor::shim {

void PutAway(const at::Tensor& tensor, bool keep, const std::string& why) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (!keep) {
    storage.set_data_ptr_noswap(
        c10::DataPtr(nullptr, c10::Device(c10::DeviceType::CPU)));
  }
  ForbidAccess(storage, why);
}

void BringBack(const at::Tensor& tensor) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  c10::DataPtr data = std::move(storage._mutable_data_ptr_no_checks());
  if (data.get() == nullptr) {
    try {
      data = c10::GetCPUAllocator()->allocate(storage.nbytes());
    } catch (...) {
      // It stays away.
      storage._mutable_data_ptr_no_checks() =
          c10::DataPtr(nullptr, c10::Device(c10::DeviceType::CPU));
      throw;
    }
  }
  AllowAccess(storage);
  storage.set_data_ptr_noswap(std::move(data));
}

}  // namespace castor::shim
