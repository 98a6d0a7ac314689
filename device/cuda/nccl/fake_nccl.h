// NCCL among ranks that are threads, over GPUs made of threads (fake_api.h):
// for tests without a GPU.
//
// As with the real one, a move waits on its *stream* for the other ranks',
// takes whatever is in the buffers when it runs, does not notice a rank that is
// gone, and checks nothing: parts of different sizes end the program.
#ifndef CASTOR_DEVICE_CUDA_NCCL_FAKE_NCCL_H_
#define CASTOR_DEVICE_CUDA_NCCL_FAKE_NCCL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/nccl/api.h"

namespace castor::nccl {

class FakeNccl final : public Api {
 public:
  // `moves_meet`: Move returns only when all ranks have come to it.
  explicit FakeNccl(bool moves_meet = false) : moves_meet_(moves_meet) {}
  ~FakeNccl() override;

  // Makes background work fail from now on, as when a network card breaks.
  void BreakNetwork() { broken_.store(true); }

  int64_t live_groups() const { return live_.load(); }
  int64_t moved_bytes() const { return moved_bytes_.load(); }

  absl::StatusOr<std::string> NewId() override;
  absl::StatusOr<Group> Join(
      const std::string& id, int rank, int world_size,
      absl::FunctionRef<absl::Status()> give_up) override;
  absl::Status Move(Group group, Stream stream,
                    absl::Span<const DeviceParts::Part> sends,
                    absl::Span<const DeviceParts::Part> receives,
                    absl::FunctionRef<absl::Status()> give_up) override;
  absl::Status Health(Group group) override;
  void Abort(Group group) override;

 private:
  // A part that a rank offers to another, until that one has taken it.
  struct Offer {
    const void* data;
    int64_t bytes;
    bool taken = false;
  };
  // The ranks of one id.
  struct World {
    std::mutex mutex;
    std::condition_variable changed;
    int joined = 0;
    std::vector<int64_t> moves;  // by rank: how many it has reached
    // Offers by sender and receiver.
    std::map<std::pair<int, int>, std::deque<std::shared_ptr<Offer>>> offers;
  };
  struct Member {
    std::shared_ptr<World> world;
    int rank;
    // Shared with work on streams, which may outlive the member.
    std::shared_ptr<std::atomic<bool>> aborted;
  };

  const bool moves_meet_;
  std::atomic<bool> broken_{false};
  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> moved_bytes_{0};
  std::mutex mutex_;  // guards what follows
  int64_t ids_ = 0;
  std::map<std::string, std::shared_ptr<World>> worlds_;
};

}  // namespace castor::nccl

#endif  // CASTOR_DEVICE_CUDA_NCCL_FAKE_NCCL_H_
