// The topology of a machine, from hwloc: packages, NUMA nodes, cores,
// processors.
#ifndef CASTOR_DEVICE_TOPOLOGY_TOPOLOGY_H_
#define CASTOR_DEVICE_TOPOLOGY_TOPOLOGY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/topology/place.h"

struct hwloc_topology;

namespace castor {

class Topology {
 public:
  // Reads the topology of the machine that this process runs on, with the parts
  // that the process may not use. Internal: hwloc cannot read it.
  static absl::StatusOr<Topology> OfThisMachine();
  // Makes a synthetic topology ("package:2 core:4 pu:2"). InvalidArgument:
  // hwloc does not know the description.
  static absl::StatusOr<Topology> Synthetic(const std::string& description);

  int packages() const;
  int cores() const;
  int processors() const;

  // Returns the place of a process that may run on `bound`; empty: on all
  // processors. Leaves host, machine and the memory's limits empty.
  // InvalidArgument: the machine has none of `bound`.
  absl::StatusOr<Place> PlaceOf(const ProcessorSet& bound) const;

  // Returns the processors that the calling process may run on; none, which
  // PlaceOf takes for all, if the topology is synthetic or the system does not
  // tell.
  ProcessorSet Binding() const;
  // Binds the calling process, with its present and future threads.
  // FailedPrecondition: the system does not allow it.
  absl::Status Bind(const ProcessorSet& processors) const;

 private:
  struct Deleter {
    void operator()(hwloc_topology* topology) const;
  };
  static absl::StatusOr<Topology> Load(const std::string& synthetic);

  std::unique_ptr<hwloc_topology, Deleter> topology_;
};

// Returns the place of this process.
absl::StatusOr<Place> PlaceOfThisProcess(const Topology& topology);

}  // namespace castor

#endif  // CASTOR_DEVICE_TOPOLOGY_TOPOLOGY_H_
