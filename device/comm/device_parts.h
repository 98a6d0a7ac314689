// How parts of collectives get from GPU to GPU: what a communicator over plain
// messages (exchange_communicator.h) uses for buffers in a GPU's memory. Its
// transport goes on to carry headers, host memory and bad news; so nothing is
// moved before all ranks are known to call the same.
//
// Threads: Move and Add are called by the launching threads of their streams;
// Watch once, before; Abort by any.
#ifndef CASTOR_DEVICE_COMM_DEVICE_PARTS_H_
#define CASTOR_DEVICE_COMM_DEVICE_PARTS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor {

class DeviceParts {
 public:
  struct Part {
    int peer = 0;  // may be this rank, which then sends and receives as much
    void* data = nullptr;
    int64_t bytes = 0;  // positive
  };

  virtual ~DeviceParts() = default;

  // Queues on the context's GPU stream: sends[i] goes to its peer, which has a
  // receive of that size from this rank; the other way round for receives. All
  // of them are under way at once. At most one each way for each pair of ranks.
  virtual absl::Status Move(const ExecContext& context,
                            absl::Span<const Part> sends,
                            absl::Span<const Part> receives) = 0;

  // Queues sum [n] (+)= part [n], element by element in fp32.
  virtual absl::Status Add(const ExecContext& context, DType dtype, int64_t n,
                           const void* part, float* sum, bool assign) = 0;

  // Begins to watch: from now on `group` tells the group's first failure (OK:
  // none), which ends what is under way; what fails here, or takes longer than
  // `time_limit_ns` once this rank has come to it, is given to `announce`. Both
  // may be called by any thread until the object is gone. ResourceExhausted:
  // there is no thread to watch.
  virtual absl::Status Watch(std::function<absl::Status()> group,
                             std::function<void(const absl::Status&)> announce,
                             int64_t time_limit_ns) = 0;

  // What is under way ends; the buffers' contents are undefined. Later moves
  // fail. No effect a second time.
  virtual void Abort() = 0;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_DEVICE_PARTS_H_
