#include "device/cuda/nccl/library_api.h"

namespace castor::nccl {

absl::StatusOr<Api*> LibraryApi() {
  return absl::FailedPreconditionError(
      "this program was built without NCCL, over which several GPUs exchange "
      "their parts: build it where nvcc is (./run.sh --cuda)");
}

}  // namespace castor::nccl
