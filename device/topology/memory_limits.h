// The limits on this process's memory: the machine's memory, and the limits of
// the control groups that the process is in.
#ifndef CASTOR_DEVICE_TOPOLOGY_MEMORY_LIMITS_H_
#define CASTOR_DEVICE_TOPOLOGY_MEMORY_LIMITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace castor {

// The variable of the environment that says what memory the machine has, as
// ParseBytes reads it, where the system's own figure is another: a virtual
// machine that is given its memory as it uses it.
inline constexpr char kMachineMemoryVariable[] = "CASTOR_MACHINE_MEMORY";

// InvalidArgument: that variable is set, and to no positive size.
absl::Status CheckMachineMemory();

// A limit on the memory of all processes that share it.
struct MemoryLimit {
  // Equal for two processes of one machine if and only if they share the limit.
  // Letters, digits and '-'.
  std::string id;
  int64_t bytes = 0;

  friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};

// Returns the machine's memory first (the variable's, where it is set and a
// size), then the limits of the control groups
// (versions 1 and 2) from this process's own up to the outermost that can be
// seen; only those below the machine's memory.
//
// A control group is identified by its directory's inode, which is the same in
// all containers, whatever their namespaces.
std::vector<MemoryLimit> MemoryLimits();

// Returns the bytes of the machine's memory that this process may use: the
// least of the limits.
int64_t PhysicalMemoryBytes();

// Returns the control groups' limits, with files read below `root` ("" outside
// of tests).
std::vector<MemoryLimit> ControlGroupLimits(const std::string& root);

}  // namespace castor

#endif  // CASTOR_DEVICE_TOPOLOGY_MEMORY_LIMITS_H_
