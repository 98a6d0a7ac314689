// The place of a GPU in the machine.
#ifndef CASTOR_DEVICE_CUDA_LOCALITY_H_
#define CASTOR_DEVICE_CUDA_LOCALITY_H_

#include <cstdint>
#include <string>

namespace castor::cuda {

// The NUMA node that the PCI device (0000:01:00.0) hangs on, by the system's
// number; -1 where the machine has one node, or does not say.
int NumaNodeOf(const std::string& pci_bus_id);

// Asks that the untouched pages of a mapping be taken from the PCI device's
// NUMA node. Without a node to choose, or where the system declines, pages come
// from where they come: it costs time, nothing else.
void BindNear(const std::string& pci_bus_id, void* data, int64_t bytes);

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_LOCALITY_H_
