#include "device/cuda/runtime_api.h"

namespace castor::cuda {

absl::StatusOr<Api*> RuntimeApi() {
  return absl::FailedPreconditionError(
      "this program was built without CUDA: build it where nvcc is "
      "(./run.sh --cuda), or use {\"type\": \"host\"}");
}

}  // namespace castor::cuda
