#include "device/cuda/locality.h"

#include <hwloc.h>

#include <memory>
#include <utility>

namespace castor::cuda {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const {
    hwloc_topology_destroy(topology);
  }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

Topology LoadWithPci() {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  Topology loaded(topology);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PCI_DEVICE,
                                 HWLOC_TYPE_FILTER_KEEP_ALL);
  return hwloc_topology_load(topology) == 0 ? std::move(loaded) : nullptr;
}

// Null where there is nothing to choose.
hwloc_const_nodeset_t NodesOf(hwloc_topology* topology,
                              const std::string& pci_bus_id) {
  if (hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) < 2) {
    return nullptr;
  }
  const hwloc_obj_t gpu =
      hwloc_get_pcidev_by_busidstring(topology, pci_bus_id.c_str());
  if (gpu == nullptr) return nullptr;
  const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, gpu);
  return near == nullptr ? nullptr : near->nodeset;
}

}  // namespace

int NumaNodeOf(const std::string& pci_bus_id) {
  const Topology topology = LoadWithPci();
  if (topology == nullptr) return -1;
  const hwloc_const_nodeset_t nodes = NodesOf(topology.get(), pci_bus_id);
  // A GPU that hangs on the whole machine is near no node.
  if (nodes == nullptr || hwloc_bitmap_weight(nodes) != 1) return -1;
  return hwloc_bitmap_first(nodes);
}

void BindNear(const std::string& pci_bus_id, void* data, int64_t bytes) {
  const Topology topology = LoadWithPci();
  if (topology == nullptr) return;
  const hwloc_const_nodeset_t nodes = NodesOf(topology.get(), pci_bus_id);
  if (nodes == nullptr) return;
  // A node that is full passes the rest on to the others.
  (void)hwloc_set_area_membind(topology.get(), data, bytes, nodes,
                               HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET);
}

}  // namespace castor::cuda
