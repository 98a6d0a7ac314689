// Moves parts of collectives from GPU to GPU, for a communicator over plain
// messages (exchange_communicator.h) whose buffers are in a GPU's memory. Its
// transport still carries headers, host memory and failures, so that nothing is
// moved before all ranks are known to call the same collective.
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
    int peer = 0;  // may be this rank, with as many bytes both ways
    void* data = nullptr;
    int64_t bytes = 0;  // positive
  };

  virtual ~DeviceParts() = default;

  // Queues the parts on the context's GPU stream: each send matches a receive
  // of the same size on its peer, and each receive a send. All are under way
  // concurrently. At most one each way for each pair of ranks.
  virtual absl::Status Move(const ExecContext& context,
                            absl::Span<const Part> sends,
                            absl::Span<const Part> receives) = 0;

  // Queues sum [n] (+)= part [n], element by element in fp32.
  virtual absl::Status Add(const ExecContext& context, DType dtype, int64_t n,
                           const void* part, float* sum, bool assign) = 0;

  // Starts to watch for failures. `group` returns the group's first failure
  // (OK: none), which ends moves under way. A failure here, or a move that
  // takes longer than `time_limit_ns` once this rank has come to it, is passed
  // to `announce`. Both may be called by any thread until the object is gone.
  // ResourceExhausted: there is no thread to watch.
  virtual absl::Status Watch(std::function<absl::Status()> group,
                             std::function<void(const absl::Status&)> announce,
                             int64_t time_limit_ns) = 0;

  // Ends the moves under way; the contents of their buffers are undefined.
  // Later moves fail. Has no effect a second time.
  virtual void Abort() = 0;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_DEVICE_PARTS_H_
