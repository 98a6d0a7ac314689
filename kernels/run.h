// Runs a kernel:
//
//   kernels::Run(context, kernels::AddArgs{.dtype = dtype, .size = size,
//                                          .a = a, .b = b, .y = y});
//
// The context decides for the device: work on a GPU's stream has context.gpu,
// the host's does not. This is the only place that looks.
#ifndef CASTOR_KERNELS_RUN_H_
#define CASTOR_KERNELS_RUN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "device/device.h"
#include "device/gpu_context.h"
#include "kernels/kernel_sizes.h"
#include "kernels/kernel_table.h"

namespace castor::kernels {

// Returns the host's table.
const KernelTable& CpuKernels();

// Runs the kernel on the context's device. On the host it is over when this
// returns; on a GPU it is queued on the context's stream. InvalidArgument, with
// nothing done: Args::Check refuses the arguments. Each operator's header lists
// other errors.
template <class Args>
absl::Status Run(const ExecContext& context, const Args& args) {
  if (absl::Status status = args.Check(); !status.ok()) return status;
  const KernelTable& table =
      context.gpu != nullptr ? *context.gpu->kernels : CpuKernels();
  return table.Get<Args>().run(context, args);
}

// Returns the bytes of workspace that the kernel takes for these arguments, by
// the GPU's sizes `gpu`, or by the host's if null. May be called before there
// is a device, with null operands.
template <TakesWorkspace Args>
int64_t WorkspaceBytes(const KernelSizes* gpu, const Args& args) {
  const KernelSizes& sizes = gpu != nullptr ? *gpu : CpuKernels();
  return sizes.SizeOf<Args>().workspace_bytes(args);
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_RUN_H_
