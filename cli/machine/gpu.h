// The GPU of a run with {"device": {"type": "cuda"}}, and of `castor info`.
#ifndef CASTOR_CLI_MACHINE_GPU_H_
#define CASTOR_CLI_MACHINE_GPU_H_

#include <string>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "run/gpu.h"
#include "runtime/train/trainer.h"

namespace castor::cli {

// Has the trainer run on it, in `dtype`. A budget that is not given becomes
// what is usable.
void RunOn(const Gpu& gpu, DType dtype, TrainerOptions* options);

// "NVIDIA H100 80GB HBM3, device memory of up to 78.1 GiB (free ...)"
std::string Describe(const Gpu& gpu);

// Prints what GPUs there are, and the bandwidth of the first one's bus; where
// there is none, why.
absl::Status PrintGpus();

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_GPU_H_
