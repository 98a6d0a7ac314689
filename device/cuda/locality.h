// The place of a GPU in the machine.
#ifndef CASTOR_DEVICE_CUDA_LOCALITY_H_
#define CASTOR_DEVICE_CUDA_LOCALITY_H_

#include <cstdint>
#include <string>

namespace castor::cuda {

// Returns the NUMA node of the PCI device (0000:01:00.0), by the system's
// number; -1 if the machine has one node, or does not say.
int NumaNodeOf(const std::string& pci_bus_id);

// Asks that the untouched pages of a mapping be taken from the PCI device's
// NUMA node. Without a node to choose, or if the system declines, the pages may
// come from any node, which only costs time.
void BindNear(const std::string& pci_bus_id, void* data, int64_t bytes);

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_LOCALITY_H_
