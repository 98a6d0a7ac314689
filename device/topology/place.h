// The place of a process: its machine, processors and memory, as far as other
// ranks need to know them. Ranks exchange it as text.
//
// Two processes are on one *machine* if one kernel runs both: they share its
// processors and its memory, whatever containers and namespaces they are in and
// whatever these call the host. A kernel is known by its boot id.
#ifndef CASTOR_DEVICE_TOPOLOGY_PLACE_H_
#define CASTOR_DEVICE_TOPOLOGY_PLACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "device/topology/memory_limits.h"

namespace castor {

// Numbers of processors (hardware threads), as the system numbers them.
// Ascending, each once.
using ProcessorSet = std::vector<int>;

// Formats as "0-3,8"; "" for none.
std::string FormatProcessors(absl::Span<const int> processors);
absl::StatusOr<ProcessorSet> ParseProcessors(absl::string_view text);

struct PlaceCore {
  int core = 0;             // the machine's number of it, in hwloc's order:
                            // neighbours share caches, NUMA node and package
  int node = 0;             // the NUMA node that is nearest
  ProcessorSet processors;  // those that the process may run on; at least one

  friend bool operator==(const PlaceCore&, const PlaceCore&) = default;
};

struct PlaceNode {
  int node = 0;  // as the system numbers them
  int64_t memory_bytes = 0;

  friend bool operator==(const PlaceNode&, const PlaceNode&) = default;
};

struct Place {
  std::string host;     // the name, for messages
  std::string machine;  // equal only on the same machine
  // The number of processors of the machine, and of those that this process's
  // control group and cpuset leave to it. The ones that a launcher binds it to
  // are in `cores`.
  int machine_processors = 0;
  int allowed_processors = 0;
  std::vector<PlaceCore> cores;  // ascending
  std::vector<PlaceNode> nodes;  // of the machine, ascending
  std::vector<MemoryLimit> memory;

  ProcessorSet processors() const;  // of all cores

  friend bool operator==(const Place&, const Place&) = default;
};

// Returns lines of words, which ParsePlace reads back to an equal place.
std::string PlaceText(const Place& place);

// Parses a place. InvalidArgument: no such text, or one without cores or memory
// (as when ranks run different versions of the program).
absl::StatusOr<Place> ParsePlace(absl::string_view text);

}  // namespace castor

#endif  // CASTOR_DEVICE_TOPOLOGY_PLACE_H_
