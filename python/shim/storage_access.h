// Makes reading a storage's data an error, and possible again.
//
// PyTorch has the error for storages without data. The way back is a public
// function in 2.13; before that the flag has none, and it is private. There it
// is reached by an explicit instantiation, which may name private members
// (C++20, 13.9.3 paragraph 6): a version whose header calls it otherwise does
// not compile, and the headers of 2.9 to 2.12 do not change any more.
#ifndef CASTOR_PYTHON_SHIM_STORAGE_ACCESS_H_
#define CASTOR_PYTHON_SHIM_STORAGE_ACCESS_H_

#include <c10/core/StorageImpl.h>

#include <string>
#include <utility>

namespace castor::shim {

// Makes reading the data from now on an error with this text.
inline void ForbidAccess(c10::StorageImpl& storage, std::string message) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(
      std::move(message));
}

template <typename Storage>
concept HasWayBack = requires(Storage& storage) {
  storage.clear_data_ptr_access_error_msg_();
};

template <typename Storage, bool Storage::*kFlag>
struct PrivateFlag {
  friend bool& FlagOf(Storage& storage) { return storage.*kFlag; }
};
bool& FlagOf(c10::StorageImpl& storage);
template struct PrivateFlag<c10::StorageImpl,
                            &c10::StorageImpl::throw_on_immutable_data_ptr_>;

// Takes ForbidAccess back. Call it before the storage's data are set by
// set_data_ptr_noswap, which looks at the flag anew.
template <typename Storage>
void AllowAccess(Storage& storage) {
  if constexpr (HasWayBack<Storage>) {
    storage.clear_data_ptr_access_error_msg_();
  } else {
    FlagOf(storage) = false;
  }
}

}  // namespace castor::shim

#endif  // CASTOR_PYTHON_SHIM_STORAGE_ACCESS_H_
