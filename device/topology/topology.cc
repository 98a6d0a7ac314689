#include "device/topology/topology.h"

#include <errno.h>
#include <hwloc.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host_name.h"
#include "base/status_macros.h"

namespace castor {
namespace {

class Bitmap {
 public:
  Bitmap() : bits_(hwloc_bitmap_alloc()) {}
  explicit Bitmap(const ProcessorSet& processors) : Bitmap() {
    for (int processor : processors) hwloc_bitmap_set(bits_, processor);
  }
  ~Bitmap() { hwloc_bitmap_free(bits_); }
  Bitmap(const Bitmap&) = delete;
  Bitmap& operator=(const Bitmap&) = delete;

  hwloc_bitmap_t get() const { return bits_; }
  ProcessorSet processors() const {
    ProcessorSet all;
    int i = hwloc_bitmap_first(bits_);
    for (; i >= 0; i = hwloc_bitmap_next(bits_, i)) all.push_back(i);
    return all;
  }

 private:
  const hwloc_bitmap_t bits_;
};

// Returns the processor's own node. Nodes without processors (memory alone) are
// no processor's.
int NodeOf(hwloc_topology_t topology, unsigned processor) {
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE,
                                            node)) != nullptr) {
    if (hwloc_bitmap_isset(node->cpuset, processor)) {
      return static_cast<int>(node->os_index);
    }
  }
  return 0;
}

// Returns the kernel's number of this boot: the same in all containers, another
// after each boot.
std::string MachineId(const std::string& host) {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.empty() ? absl::StrCat("host-", host) : id;
}

}  // namespace

void Topology::Deleter::operator()(hwloc_topology* topology) const {
  hwloc_topology_destroy(topology);
}

absl::StatusOr<Topology> Topology::Load(const std::string& synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return absl::InternalError("hwloc cannot be initialised");
  }
  Topology topology;
  topology.topology_.reset(raw);
  if (!synthetic.empty() &&
      hwloc_topology_set_synthetic(raw, synthetic.c_str()) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", synthetic, "\" describes no topology"));
  }
  // With disallowed cores included, cores keep their numbers in every
  // container. Kinds of cores are not asked for: hwloc 2.12 ends the program
  // with an assertion where they cannot be read.
  if (hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED |
                                        HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS) != 0 ||
      hwloc_topology_load(raw) != 0) {
    return absl::InternalError(absl::StrCat(
        "hwloc cannot read this machine's topology: ", strerror(errno)));
  }
  return topology;
}

absl::StatusOr<Topology> Topology::OfThisMachine() { return Load(""); }

absl::StatusOr<Topology> Topology::Synthetic(const std::string& description) {
  return Load(description);
}

int Topology::packages() const {
  return hwloc_get_nbobjs_by_type(topology_.get(), HWLOC_OBJ_PACKAGE);
}

int Topology::cores() const {
  return hwloc_get_nbobjs_by_type(topology_.get(), HWLOC_OBJ_CORE);
}

int Topology::processors() const {
  return hwloc_get_nbobjs_by_type(topology_.get(), HWLOC_OBJ_PU);
}

absl::StatusOr<Place> Topology::PlaceOf(const ProcessorSet& bound) const {
  hwloc_topology_t const topology = topology_.get();
  Place place;
  place.machine_processors = processors();
  hwloc_const_cpuset_t const allowed =
      hwloc_topology_get_allowed_cpuset(topology);
  place.allowed_processors = hwloc_bitmap_weight(allowed);
  const Bitmap wanted(bound);
  std::map<int, PlaceCore> cores;
  hwloc_obj_t unit = nullptr;
  while ((unit = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, unit)) !=
         nullptr) {
    const unsigned number = unit->os_index;
    if (bound.empty() ? !hwloc_bitmap_isset(allowed, number)
                      : !hwloc_bitmap_isset(wanted.get(), number)) {
      continue;
    }
    // Where hwloc knows no cores, each processor is taken for one.
    hwloc_obj_t const core =
        hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, unit);
    const int index =
        static_cast<int>((core == nullptr ? unit : core)->logical_index);
    PlaceCore& at = cores[index];
    at.core = index;
    at.node = NodeOf(topology, number);
    at.processors.push_back(static_cast<int>(number));
  }
  for (auto& [index, core] : cores) {
    std::sort(core.processors.begin(), core.processors.end());
    place.cores.push_back(std::move(core));
  }
  if (place.cores.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("none of the processors ",
                                                   FormatProcessors(bound),
                                                   " is in this machine"));
  }
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE,
                                            node)) != nullptr) {
    place.nodes.push_back(
        {static_cast<int>(node->os_index),
         static_cast<int64_t>(node->attr->numanode.local_memory)});
  }
  return place;
}

ProcessorSet Topology::Binding() const {
  const Bitmap bound;
  if (!hwloc_topology_is_thissystem(topology_.get()) ||
      hwloc_get_cpubind(topology_.get(), bound.get(), HWLOC_CPUBIND_THREAD) !=
          0) {
    return {};
  }
  return bound.processors();
}

absl::Status Topology::Bind(const ProcessorSet& processors) const {
  const Bitmap wanted(processors);
  if (hwloc_set_cpubind(topology_.get(), wanted.get(), HWLOC_CPUBIND_PROCESS) !=
      0) {
    return absl::FailedPreconditionError(
        absl::StrCat("this process cannot be bound to the processors ",
                     FormatProcessors(processors), ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Place> PlaceOfThisProcess(const Topology& topology) {
  CASTOR_ASSIGN_OR_RETURN(Place place, topology.PlaceOf(topology.Binding()));
  place.host = HostName();
  if (place.host.empty()) place.host.assign(1, '?');
  place.machine = MachineId(place.host);
  place.memory = MemoryLimits();
  return place;
}

}  // namespace castor
