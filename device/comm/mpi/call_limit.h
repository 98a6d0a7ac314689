// A time limit for MPI calls that wait for other ranks. MPI has none, and such
// a call cannot be ended from outside: if a rank has died or hangs and the
// launcher does not notice, the others would wait for ever. So a process that
// has waited too long names the missing ranks, as far as it can find them, and
// ends.
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

// The place of a process among the ranks, by its launcher; a size of 0 if that
// is not known.
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

// Returns the ranks of this run that can be found on this machine, this process
// among them, in their order: processes of the same program with the run's name
// in their environment. None if the launcher sets no such name
// (PMIX_NAMESPACE).
std::vector<RankProcess> RanksOfThisMachine();

// Says which ranks did not come: "rank 2 is not there any more".
std::string WhoDidNotCome(const MpiPlace& place,
                          const std::vector<RankProcess>& found);

class CallLimit {
 public:
  // Starts the limit: unless the object is destroyed within `limit_ns`, the
  // process ends with exit code
  // 1. `what` names the wait: "MPI's start". The first rank of this machine
  // that is not stopped reports it; the others give it the time to.
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
