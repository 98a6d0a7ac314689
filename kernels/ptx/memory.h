// The memory of a machine's programs. An access outside of it, or not at a
// multiple of its size, is an error.
#ifndef CASTOR_KERNELS_PTX_MEMORY_H_
#define CASTOR_KERNELS_PTX_MEMORY_H_

#include <cstdint>
#include <map>

namespace castor::kernels::ptx {

// Global memory: allocations of the process, at their own addresses.
class GlobalMemory {
 public:
  void Add(const void* begin, int64_t bytes);
  void Remove(const void* begin);

  // Returns true if these bytes lie in one allocation.
  bool Contains(uint64_t address, int64_t bytes) const {
    if (address >= begin_ && address <= end_ &&
        static_cast<int64_t>(end_ - address) >= bytes) {
      return true;
    }
    return Look(address, bytes);
  }

 private:
  bool Look(uint64_t address, int64_t bytes) const;

  std::map<uint64_t, uint64_t> ends_;  // by their beginning
  // The last allocation that was looked up. Only one thread uses this.
  mutable uint64_t begin_ = 1, end_ = 0;
};

}  // namespace castor::kernels::ptx

#endif  // CASTOR_KERNELS_PTX_MEMORY_H_
