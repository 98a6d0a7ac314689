// What bounds the memory of this process: the machine's own, and the limits of
// the control groups that it is in.
#ifndef CASTOR_DEVICE_TOPOLOGY_MEMORY_LIMITS_H_
#define CASTOR_DEVICE_TOPOLOGY_MEMORY_LIMITS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace castor {

// A bound on the memory of all processes that have it in common.
struct MemoryLimit {
  // The same for two processes of one machine if and only if they share it.
  // Letters, digits and '-'.
  std::string id;
  int64_t bytes = 0;

  friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};

// The machine's memory first, then the limits of the control groups (versions 1
// and 2) from this process's own up to the outermost that can be seen; only
// those that are less than the machine's memory.
//
// A control group is known by its directory's inode, which containers with
// namespaces of their own see alike.
std::vector<MemoryLimit> MemoryLimits();

// What this process may use of the machine's memory: the least of them.
int64_t PhysicalMemoryBytes();

// MemoryLimits' groups, with files read below `root` ("" outside of tests).
std::vector<MemoryLimit> ControlGroupLimits(const std::string& root);

}  // namespace castor

#endif  // CASTOR_DEVICE_TOPOLOGY_MEMORY_LIMITS_H_
