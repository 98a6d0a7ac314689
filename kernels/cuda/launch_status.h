// Launches with a status that names the kernel. For the operators' cuda.cc.
#ifndef CASTOR_KERNELS_CUDA_LAUNCH_STATUS_H_
#define CASTOR_KERNELS_CUDA_LAUNCH_STATUS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "device/device.h"
#include "device/gpu_context.h"
#include "kernels/cuda/launch.h"

namespace castor::kernels::cuda {

// Queues `blocks` (0: nothing) blocks of `program` on the context's stream.
template <class Program>
absl::Status Launch(const ExecContext& context, const char* kernel,
                    int64_t blocks, const Program& program) {
  if (blocks == 0) return absl::OkStatus();
  if (blocks > kMaxBlocks) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel ", kernel, " would take ", blocks,
                     " blocks, and a launch at most ", kMaxBlocks,
                     ": use a smaller micro batch"));
  }
  context.gpu->BeforeLaunches(1);
  const char* error = LaunchProgram(context.gpu->stream, blocks, program);
  if (error == nullptr) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("kernel ", kernel, " of ", blocks,
                   " blocks could not be started: ", error));
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_LAUNCH_STATUS_H_
