#include "kernels/ptx/memory.h"

namespace castor::kernels::ptx {

void GlobalMemory::Add(const void* begin, int64_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(begin);
  ends_[address] = address + static_cast<uint64_t>(bytes);
}

void GlobalMemory::Remove(const void* begin) {
  ends_.erase(reinterpret_cast<uint64_t>(begin));
  begin_ = 1;
  end_ = 0;
}

bool GlobalMemory::Look(uint64_t address, int64_t bytes) const {
  auto next = ends_.upper_bound(address);
  if (next == ends_.begin()) return false;
  --next;
  if (address > next->second ||
      static_cast<int64_t>(next->second - address) < bytes) {
    return false;
  }
  begin_ = next->first;
  end_ = next->second;
  return true;
}

}  // namespace castor::kernels::ptx
