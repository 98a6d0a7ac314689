// A limit for calls of MPI's that wait for other ranks. MPI's own have none, and
// nothing ends one from outside: where a rank has died or hangs and the launcher
// does not notice, the others would wait in it for ever. So a process that has
// waited too long says for whom, as far as it can find that out, and ends.
//
// Threads: a thread of its own waits for the limit.
#ifndef CASTOR_DEVICE_COMM_MPI_CALL_LIMIT_H_
#define CASTOR_DEVICE_COMM_MPI_CALL_LIMIT_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

// What a process is among the ranks, as its launcher says; a size of 0 where
// that is not known.
struct MpiPlace {
  int rank = 0;
  int world_size = 0;
  int local_size = 0;
};

// A rank of this run that runs on this machine.
struct RankProcess {
  int rank = 0;
  pid_t process = 0;
  bool stopped = false;  // by a signal or a debugger
};

// Those that can be found, this process among them, in the ranks' order: each
// has this one's program and the run's name in its environment. None where the
// launcher sets no such name (PMIX_NAMESPACE).
std::vector<RankProcess> RanksOfThisMachine();

// Who of them did not come, in words: "rank 2 is not there any more".
std::string WhoDidNotCome(const MpiPlace& place,
                          const std::vector<RankProcess>& found);

class CallLimit {
 public:
  // Unless it is destroyed within `limit_ns`, the process ends with exit code
  // 1. `what` is where it waits: "MPI's start". The first rank of this machine
  // that is not stopped says so; the others leave it the time to.
  static absl::StatusOr<std::unique_ptr<CallLimit>> Start(
      absl::string_view what, const MpiPlace& place, int64_t limit_ns);
  ~CallLimit();
  CallLimit(const CallLimit&) = delete;
  CallLimit& operator=(const CallLimit&) = delete;

 private:
  CallLimit() = default;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_MPI_CALL_LIMIT_H_
