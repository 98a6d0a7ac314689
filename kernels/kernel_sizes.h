// The workspaces and limits of a device's kernels, known before there is a
// device.
//
// The GPU's (kernels/cuda/sizes.h) are in every build, whether it has nvcc or
// not, so that a run on a GPU can be planned anywhere. Its kernels take the
// bytes that the same functions say, so that no size stands twice.
#ifndef CASTOR_KERNELS_KERNEL_SIZES_H_
#define CASTOR_KERNELS_KERNEL_SIZES_H_

#include <cstdint>
#include <tuple>

#include "kernels/operators.h"

namespace castor::kernels {

// A kernel takes a workspace if its arguments have a member for it.
template <class Args>
concept TakesWorkspace = requires(const Args& args) {
  args.workspace;
};

// An entry: the size of the workspace that a device's implementation of the
// kernel Args takes.
template <class Args>
struct KernelSize {
  // Null if the kernel takes no workspace.
  int64_t (*workspace_bytes)(const Args&) = nullptr;
};

struct KernelSizes {
  template <class... Args>
  static std::tuple<KernelSize<Args>...> SizesOf(OperatorList<Args...>);

  template <class Args>
  constexpr const KernelSize<Args>& SizeOf() const {
    return std::get<KernelSize<Args>>(sizes);
  }

  decltype(SizesOf(Operators())) sizes;
};

// Makes the sizes of a device that is described by a static template:
//
//   struct Device {
//     template <class Args>
//     static int64_t WorkspaceBytes(const Args& args);
//   };
template <class Device>
constexpr KernelSizes MakeKernelSizes() {
  KernelSizes all;
  const auto fill = []<class Args>(KernelSize<Args>& size) {
    if constexpr (TakesWorkspace<Args>) {
      size.workspace_bytes = Device::template WorkspaceBytes<Args>;
    }
  };
  std::apply([&](auto&... sizes) { (fill(sizes), ...); }, all.sizes);
  return all;
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_KERNEL_SIZES_H_
