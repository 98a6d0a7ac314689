// The calls of NCCL that Castor makes, behind an interface, so that the code
// above is compiled, and tested over a fake, where there is no NCCL.
//
// LibraryApi() (library_api.h) opens NVIDIA's library; FakeNccl (fake_nccl.h)
// has ranks that are threads.
//
// Errors: Internal, with the call and NCCL's own words; Unavailable if it has
// lost another rank; the status of `give_up`, once that is not OK. Threads: one
// at a time for each group.
#ifndef CASTOR_DEVICE_CUDA_NCCL_API_H_
#define CASTOR_DEVICE_CUDA_NCCL_API_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "device/comm/device_parts.h"

namespace castor::nccl {

class Api {
 public:
  using Group = void*;   // ncclComm_t
  using Stream = void*;  // cudaStream_t

  virtual ~Api() = default;

  // Makes the id that one rank makes and all ranks pass to Join.
  virtual absl::StatusOr<std::string> NewId() = 0;

  // Joins with the GPU that the calling thread uses; each rank has one of its
  // own. Waits for all ranks, and polls `give_up` meanwhile.
  virtual absl::StatusOr<Group> Join(
      const std::string& id, int rank, int world_size,
      absl::FunctionRef<absl::Status()> give_up) = 0;

  // See DeviceParts::Move. Returns when all parts are queued on `stream`, which
  // may take until other ranks have come; polls `give_up` meanwhile.
  virtual absl::Status Move(Group group, Stream stream,
                            absl::Span<const DeviceParts::Part> sends,
                            absl::Span<const DeviceParts::Part> receives,
                            absl::FunctionRef<absl::Status()> give_up) = 0;

  // Returns the error of work in the background.
  virtual absl::Status Health(Group group) = 0;

  // Ends the group for this rank, with moves under way, if any, and waits for
  // no other rank.
  virtual void Abort(Group group) = 0;
};

}  // namespace castor::nccl

#endif  // CASTOR_DEVICE_CUDA_NCCL_API_H_
