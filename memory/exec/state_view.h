// Addresses of a chunk's optimizer states, on whichever side they are.
// memory/plan/layout/state_layout.h says which arrays there are.
#ifndef CASTOR_MEMORY_EXEC_STATE_VIEW_H_
#define CASTOR_MEMORY_EXEC_STATE_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "memory/plan/layout/state_layout.h"

namespace castor {

// The states of this rank's shard of a chunk: `elements` values in each array,
// the first of which belongs to element `begin` of the chunk. A frozen chunk
// has no elements here.
struct StateView {
  std::byte* master = nullptr;
  std::array<std::byte*, kMaxStateSlots> slots = {};
  float* sum = nullptr;  // only with gradient accumulation
  int64_t elements = 0;
  int64_t begin = 0;

  std::byte* array(StatePart part) const {
    return part.is_master() ? master : slots[part.slot()];
  }
  // Master's values, or those of its first part, which are of type T.
  template <typename T = float>
  T* masters() const {
    return reinterpret_cast<T*>(master);
  }
  // The slot's values, which are of type T.
  template <typename T = float>
  T* slot(int i) const {
    return reinterpret_cast<T*>(slots[i]);
  }
};

}  // namespace castor

#endif  // CASTOR_MEMORY_EXEC_STATE_VIEW_H_
