// Moves parts of collectives over NCCL: one group of sends and receives for
// each collective, so that a rank sends and receives no more bytes than a
// communicator promises (communicator.h).
//
// NCCL's kernels wait on the GPU for the other ranks and do not notice their
// death. So a thread checks every kPollNs for a failure of the group or of NCCL
// and for a move that takes too long, and then has NCCL end its kernels. The
// streams go on, with undefined buffers, and the communicator reports the
// failure.
#ifndef CASTOR_DEVICE_CUDA_NCCL_NCCL_PARTS_H_
#define CASTOR_DEVICE_CUDA_NCCL_NCCL_PARTS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/comm/device_parts.h"
#include "device/cuda/api.h"
#include "device/cuda/nccl/api.h"

namespace castor::nccl {

struct PartsOptions {
  int ordinal = 0;  // of the device, among the visible GPUs
  int rank = 0;
  int world_size = 1;
  std::string id;  // from Api::NewId, the same on all ranks
  // Queues sum (+)= part; see DeviceParts::Add.
  absl::Status (*add)(const ExecContext& context, DType dtype, int64_t n,
                      const void* part, float* sum, bool assign) = nullptr;
};

class NcclParts final : public DeviceParts {
 public:
  static constexpr int64_t kPollNs = 20'000'000;

  // Joins the ranks, which call it together; waits for them, and gives up with
  // the status of `give_up`. The APIs outlive the object.
  static absl::StatusOr<std::unique_ptr<DeviceParts>> Join(
      Api* api, cuda::Api* gpu, const PartsOptions& options,
      absl::FunctionRef<absl::Status()> give_up);

  // Aborts queued moves that are not over.
  ~NcclParts() override;
  NcclParts(const NcclParts&) = delete;
  NcclParts& operator=(const NcclParts&) = delete;

  absl::Status Move(const ExecContext& context, absl::Span<const Part> sends,
                    absl::Span<const Part> receives) override;
  absl::Status Add(const ExecContext& context, DType dtype, int64_t n,
                   const void* part, float* sum, bool assign) override {
    return options_.add(context, dtype, n, part, sum, assign);
  }
  absl::Status Watch(std::function<absl::Status()> group,
                     std::function<void(const absl::Status&)> announce,
                     int64_t time_limit_ns) override;
  void Abort() override;

 private:
  // The most moves that are queued at once: a launch must not block inside
  // CUDA, where it cannot be ended.
  static constexpr size_t kMostInFlight = 64;

  // A queued move that is not yet known to be over. Its time counts from when
  // the GPU came to it.
  struct InFlight {
    cuda::Api::Event begun = nullptr;
    cuda::Api::Event over = nullptr;
    int64_t begun_ns = 0;  // seen; 0: not yet
  };

  NcclParts(Api* api, cuda::Api* gpu, const PartsOptions& options)
      : api_(api), gpu_(gpu), options_(options) {}
  void WatchLoop();
  // Returns the present failure, if any.
  absl::Status Look();
  // Forgets moves that are over. mutex_ must be held.
  absl::Status ForgetOver();
  absl::Status AwaitRoom();
  absl::Status TooLong() const;
  absl::StatusOr<cuda::Api::Event> TakeEvent();

  Api* const api_;
  cuda::Api* const gpu_;
  const PartsOptions options_;

  std::function<absl::Status()> failure_of_group_;
  std::function<void(const absl::Status&)> announce_;
  std::atomic<int64_t> time_limit_ns_{std::numeric_limits<int64_t>::max()};
  std::atomic<bool> aborted_{false};

  // Held during calls of NCCL, which may take long unless aborted_ is set.
  std::mutex group_mutex_;
  Api::Group group_ = nullptr;  // null: aborted

  std::mutex mutex_;  // guards what follows; taken after group_mutex_
  std::condition_variable news_;
  bool stop_ = false;
  std::deque<InFlight> in_flight_;
  std::vector<cuda::Api::Event> free_events_;
  std::thread watcher_;
};

}  // namespace castor::nccl

#endif  // CASTOR_DEVICE_CUDA_NCCL_NCCL_PARTS_H_
