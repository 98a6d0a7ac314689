// Waiting for a lock file: whoever holds one has written who it is, and whoever
// waits says for whom, and for how long at most.
#ifndef CASTOR_BASE_LOCK_WAIT_H_
#define CASTOR_BASE_LOCK_WAIT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/lock_file.h"

namespace castor {

// What a holder writes: {"host": ..., "process": ...}, and "run" unless that is
// "".
std::string LockHolderText(absl::string_view run);

// The holder of a lock that was refused.
struct LockHolder {
  // "process 12 on host \"a\", run \"0123\"", or "another process".
  std::string name;
  // It was a process of this machine, which is not there any more: the lock is
  // held by something that it left behind.
  bool has_ended = false;
};
LockHolder HolderOf(const LockFile::Attempt& held);

struct LockWait {
  double timeout_seconds = 0;  // 0: one attempt
  // Takes lines for the user; may be null. `what` begins them.
  std::function<void(absl::string_view line)> say = {};
  std::string what = {};  // "another process tokenises \"a.txt\""
};

// Takes the lock file at `path` as LockFile::TryTake does, and while somebody
// holds it who may still live, tries again until the time is over. The outcome
// is that of the last attempt.
LockFile::Attempt AwaitLock(const std::string& path, const LockWait& wait);

}  // namespace castor

#endif  // CASTOR_BASE_LOCK_WAIT_H_
