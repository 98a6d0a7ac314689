// A device's implementations of all kernels, which Run (kernels/run.h) looks
// up.
//
// A table has an entry for each row of kernels/operators.h, and only
// MakeKernelTable fills one. A row whose device has no implementation does not
// compile or does not link; no entry is ever missing at run time.
//
// The GPU's table comes with the device (the code that opens a CUDA device
// passes kernels::cuda::Kernels() to it), so only kernels/cuda links CUDA, and
// a test can use a table of its own. The workspaces that these kernels take
// (kernels/kernel_sizes.h) are known without CUDA, too.
#ifndef CASTOR_KERNELS_KERNEL_TABLE_H_
#define CASTOR_KERNELS_KERNEL_TABLE_H_

#include <tuple>

#include "absl/status/status.h"
#include "device/device.h"
#include "device/gpu_context.h"
#include "kernels/kernel_sizes.h"
#include "kernels/operators.h"

namespace castor::kernels {

// An entry: a device's implementation of the kernel whose arguments are Args.
template <class Args>
struct Kernel {
  absl::Status (*run)(const ExecContext&, const Args&) = nullptr;
};

struct KernelTable : KernelSizes {
  template <class... Args>
  static std::tuple<Kernel<Args>...> KernelsOf(OperatorList<Args...>);

  template <class Args>
  constexpr const Kernel<Args>& Get() const {
    return std::get<Kernel<Args>>(kernels);
  }

  decltype(KernelsOf(Operators())) kernels;
  // Returns a fault of the device's kernels as a status. Null on the host,
  // whose kernels return their errors.
  absl::Status (*describe_fault)(const GpuFault&) = nullptr;
  // Loads the code of all kernels on the GPU that the calling thread has
  // chosen. Null if there is nothing to load.
  absl::Status (*load)() = nullptr;
};

// Makes the table of a device that takes `sizes` and is described by a static
// template:
//
//   struct Device {
//     template <class Args>
//     static absl::Status Run(const ExecContext& context, const Args& args);
//   };
template <class Device>
constexpr KernelTable MakeKernelTable(
    const KernelSizes& sizes,
    absl::Status (*describe_fault)(const GpuFault&) = nullptr,
    absl::Status (*load)() = nullptr) {
  KernelTable table;
  static_cast<KernelSizes&>(table) = sizes;
  const auto fill = []<class Args>(Kernel<Args>& kernel) {
    kernel.run = Device::template Run<Args>;
  };
  std::apply([&](auto&... kernels) { (fill(kernels), ...); }, table.kernels);
  table.describe_fault = describe_fault;
  table.load = load;
  return table;
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_KERNEL_TABLE_H_
