// A group of ranks, of which this process is one, from the program's start to
// its end.
//
// Ranks have much to agree on before any of them has a device: that they have
// the same configuration, how they share a machine, from which checkpoint they
// resume. So a process joins its group first, over MPI or TCP as its launcher
// asks, and gets the group's Communicator later, on its device. A process that
// was started alone is a group of one, which needs neither.
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
// Threads: one. The destructor waits for all ranks to end orderly, unless the
// communicator was made (which then does that) or the group has failed.
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
  // Joins the group, and waits for the others up to options.start_limit_ns.
  // MPI's own start cannot be left: there the process ends after that time
  // (mpi/call_limit.h). InvalidArgument: the launcher is not known here.
  // Unavailable: the ranks cannot reach each other, or the number of ranks
  // differs from the launcher's.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Join(
      const LaunchEnv& launch, const CommunicatorOptions& options);

  // Makes a group over a given transport; null for a group of one.
  RankGroup(std::unique_ptr<Transport> transport,
            const CommunicatorOptions& options);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // The time limits of waits for other ranks.
  const CommunicatorOptions& options() const { return options_; }

  // Returns every rank's text, by rank. For a few KiB: every rank sends to all.
  // FailedPrecondition: another rank calls something else, or the communicator
  // was made. Unavailable: a rank has died or did not come in time.
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key,
                                                    absl::string_view mine);

  // Returns OK if every rank's `mine` is OK; otherwise the same status on all:
  // that of the first rank that failed, with its number before it unless all
  // ranks have the same. If the group fails meanwhile, returns its failure.
  absl::Status Agree(absl::string_view key, const absl::Status& mine);

  // Returns the group's first failure, as known here; OK if there is none.
  absl::Status failure() const;
  // Ends the group for a reason of this rank's: all others' calls fail with it.
  // Has no effect after the group's first failure.
  void Fail(const absl::Status& reason);

  // Makes the group's communicator on `device`, with `gpu_parts` if that is a
  // GPU; once, and not for a group of one.
  absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(
      Device* device, std::unique_ptr<DeviceParts> gpu_parts = nullptr);

 private:
  absl::StatusOr<std::vector<std::string>> TryExchange(absl::string_view key,
                                                       absl::string_view mine);
  // Waits until all messages are over; missing[r] of rank r are still under
  // way.
  absl::Status Finish(std::vector<int> missing, absl::string_view key);

  std::unique_ptr<Transport> transport_;  // null: alone, or handed on
  CommunicatorOptions options_;
  int rank_ = 0;
  int world_size_ = 1;
  absl::Status failure_;
};

// Returns the least of the ranks' numbers, on all of them; the first failure,
// if one of them has none. As RankGroup::Agree and Exchange.
absl::StatusOr<int64_t> LeastOfRanks(RankGroup& group, absl::string_view key,
                                     const absl::StatusOr<int64_t>& mine);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_RANK_GROUP_H_
