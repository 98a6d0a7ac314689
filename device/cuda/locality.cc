#include "device/cuda/locality.h"

#include <hwloc.h>
#include <hwloc/linux.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace castor::cuda {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const {
    hwloc_topology_destroy(topology);
  }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

Topology Load() {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  Topology loaded(topology);
  return hwloc_topology_load(topology) == 0 ? std::move(loaded) : nullptr;
}

// Returns null where there is nothing to choose. The kernel knows which
// processors a device is near to; hwloc's own discovery of PCI devices would
// look at all of them (and libpciaccess leaks).
Bitmap NodesOf(hwloc_topology* topology, const std::string& pci_bus_id) {
  const Bitmap processors(hwloc_bitmap_alloc());
  Bitmap nodes(hwloc_bitmap_alloc());
  if (hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) < 2 ||
      hwloc_linux_read_path_as_cpumask(
          absl::StrCat("/sys/bus/pci/devices/",
                       absl::AsciiStrToLower(pci_bus_id), "/local_cpus")
              .c_str(),
          processors.get()) != 0 ||
      hwloc_cpuset_to_nodeset(topology, processors.get(), nodes.get()) != 0 ||
      hwloc_bitmap_iszero(nodes.get()) ||
      hwloc_bitmap_isequal(nodes.get(),
                           hwloc_topology_get_topology_nodeset(topology))) {
    return nullptr;
  }
  return nodes;
}

}  // namespace

int NumaNodeOf(const std::string& pci_bus_id) {
  const Topology topology = Load();
  if (topology == nullptr) return -1;
  const Bitmap nodes = NodesOf(topology.get(), pci_bus_id);
  if (nodes == nullptr || hwloc_bitmap_weight(nodes.get()) != 1) return -1;
  return hwloc_bitmap_first(nodes.get());
}

void BindNear(const std::string& pci_bus_id, void* data, int64_t bytes) {
  const Topology topology = Load();
  if (topology == nullptr) return;
  const Bitmap nodes = NodesOf(topology.get(), pci_bus_id);
  if (nodes == nullptr) return;
  // A node that is full passes the rest on to the others.
  (void)hwloc_set_area_membind(topology.get(), data, bytes, nodes.get(),
                               HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET);
}

}  // namespace castor::cuda
