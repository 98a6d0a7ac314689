// This process as one of a group of ranks, from the program's start to its end.
//
// Ranks have much to settle before any of them has a device: whether they were
// given the same configuration, how they share a machine, which checkpoint to
// go on from. So a process joins its group first, as its launcher says (over
// MPI or TCP), and gets the group's Communicator later, on its device. A
// process that was started alone is a group of one, which needs neither.
//
//   auto launch = DetectLaunch(CurrentEnvironment());
//   auto group = RankGroup::Join(*launch, {});
//   auto hosts = (*group)->Exchange("hosts", my_host);
//   absl::Status started = (*group)->Agree("start", Prepare());
//   ... (*group)->MakeCommunicator(device, {}) ...
//
// All ranks call the same methods in the same order, with the same keys. After
// a failure (a rank has died, or calls something else) every call fails.
//
// Threads: one. The destructor is an orderly end, for which it waits for all
// ranks, unless the communicator was made (whose end it is then) or the group
// has failed.
#ifndef CASTOR_DEVICE_COMM_RANK_GROUP_H_
#define CASTOR_DEVICE_COMM_RANK_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/comm/communicator.h"
#include "device/comm/device_parts.h"
#include "device/comm/launch_env.h"
#include "device/comm/transport.h"

namespace castor {

class RankGroup {
 public:
  // Waits for the others as long as options.start_limit_ns says. MPI's own
  // start cannot be left: there the process ends after that (mpi/call_limit.h).
  // InvalidArgument: the launcher is none that is known here. Unavailable: the
  // ranks cannot reach each other, or the launcher's number of ranks is not
  // that of those who came.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Join(
      const LaunchEnv& launch, const CommunicatorOptions& options);

  // Over a transport of another kind; null for a group of one.
  RankGroup(std::unique_ptr<Transport> transport,
            const CommunicatorOptions& options);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // How long a rank waits for another.
  const CommunicatorOptions& options() const { return options_; }

  // Every rank's text, by rank. For a few KiB: everyone sends all to all.
  // FailedPrecondition: another rank calls something else, or the communicator
  // was made. Unavailable: a rank has died or did not come in time.
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key,
                                                    absl::string_view mine);

  // OK if every rank's `mine` is. Otherwise the same status on all: what the
  // first rank that failed has, with its number before it unless all ranks say
  // the same. The group's failure, if it fails meanwhile.
  absl::Status Agree(absl::string_view key, const absl::Status& mine);

  // The group's first failure, as known here; OK if there is none.
  absl::Status failure() const;
  // Ends the group, for a reason of this rank's: all others' calls fail with
  // it. No effect after a first failure.
  void Fail(const absl::Status& reason);

  // The group's communicator on `device`, which has `gpu_parts` if it is a GPU;
  // once, and not for a group of one.
  absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(
      Device* device, std::unique_ptr<DeviceParts> gpu_parts = nullptr);

 private:
  absl::StatusOr<std::vector<std::string>> TryExchange(absl::string_view key,
                                                       absl::string_view mine);
  // Waits until all messages are over: of each rank so many are `missing`.
  absl::Status Finish(std::vector<int> missing, absl::string_view key);

  std::unique_ptr<Transport> transport_;  // null: alone, or handed on
  CommunicatorOptions options_;
  int rank_ = 0;
  int world_size_ = 1;
  absl::Status failure_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_RANK_GROUP_H_
