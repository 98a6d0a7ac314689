// A device's implementations of all kernels, which Run (kernels/run.h) looks
// up.
//
// A table has an entry for each row of kernels/operators.h, and only
// MakeKernelTable fills one. A row whose device has no implementation does not
// compile or does not link; no entry is ever missing at run time.
//
// The GPU's table comes with the device (the code that opens a CUDA device
// passes kernels::cuda::Kernels() to it), so only kernels/cuda links CUDA, and
// a test can use a table of its own.
#ifndef CASTOR_KERNELS_KERNEL_TABLE_H_
#define CASTOR_KERNELS_KERNEL_TABLE_H_

#include <cstdint>
#include <tuple>

#include "absl/status/status.h"
#include "device/device.h"
#include "device/gpu_context.h"
#include "kernels/operators.h"

namespace castor::kernels {

// An entry: a device's implementation of the kernel whose arguments are Args.
template <class Args>
struct Kernel {
  absl::Status (*run)(const ExecContext&, const Args&) = nullptr;
  // Null if the kernel takes no workspace.
  int64_t (*workspace_bytes)(const Args&) = nullptr;
};

// A kernel takes a workspace if its arguments have a member for it.
template <class Args>
concept TakesWorkspace = requires(const Args& args) {
  args.workspace;
};

struct KernelTable {
  template <class... Args>
  static std::tuple<Kernel<Args>...> EntriesOf(OperatorList<Args...>);

  template <class Args>
  constexpr const Kernel<Args>& Get() const {
    return std::get<Kernel<Args>>(entries);
  }

  decltype(EntriesOf(Operators())) entries;
  // Returns a fault of the device's kernels as a status. Null on the host,
  // whose kernels return their errors.
  absl::Status (*describe_fault)(const GpuFault&) = nullptr;
  // Loads the code of all kernels on the GPU that the calling thread has
  // chosen. Null if there is nothing to load.
  absl::Status (*load)() = nullptr;
};

// Makes the table of a device that is described by two static templates:
//
//   struct Device {
//     template <class Args>
//     static absl::Status Run(const ExecContext& context, const Args& args);
//     template <class Args>
//     static int64_t WorkspaceBytes(const Args& args);
//   };
template <class Device>
constexpr KernelTable MakeKernelTable(
    absl::Status (*describe_fault)(const GpuFault&) = nullptr,
    absl::Status (*load)() = nullptr) {
  KernelTable table;
  const auto fill = []<class Args>(Kernel<Args>& kernel) {
    kernel.run = Device::template Run<Args>;
    if constexpr (TakesWorkspace<Args>) {
      kernel.workspace_bytes = Device::template WorkspaceBytes<Args>;
    }
  };
  std::apply([&](auto&... kernels) { (fill(kernels), ...); }, table.entries);
  table.describe_fault = describe_fault;
  table.load = load;
  return table;
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_KERNEL_TABLE_H_
