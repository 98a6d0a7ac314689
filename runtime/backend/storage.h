// The memory of a tensor of non-model data. It has no address: where the bytes
// are is known only while an operator is issued (backend.h), since the memory
// manager may move them between two operators.
#ifndef CASTOR_RUNTIME_BACKEND_STORAGE_H_
#define CASTOR_RUNTIME_BACKEND_STORAGE_H_

#include <cstdint>

namespace castor {

// Gives storage back. The backends implement it (backend.h).
class StorageOwner {
 public:
  virtual ~StorageOwner() = default;
  virtual void Release(int64_t storage_id) = 0;
};

// One block of non-model device memory. `owner` outlives it.
struct Storage {
  Storage(StorageOwner* owner, int64_t id) : owner(owner), id(id) {}
  ~Storage() { owner->Release(id); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  StorageOwner* const owner;
  const int64_t id;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_BACKEND_STORAGE_H_
