// Waiting for a lock file: its holder has written its name into it, and the
// waiting process tells the user for whom it waits, and for how long at most.
#ifndef CASTOR_BASE_LOCK_WAIT_H_
#define CASTOR_BASE_LOCK_WAIT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/lock_file.h"

namespace castor {

// Returns the text that a holder writes: {"host": ..., "process": ...}, and
// "run" unless that is "".
std::string LockHolderText(absl::string_view run);

// The holder of a lock that was refused.
struct LockHolder {
  // "process 12 on host \"a\", run \"0123\"", or "another process".
  std::string name;
  // True if it was a process of this machine that has ended: a process that it
  // left behind holds the lock.
  bool has_ended = false;
};
LockHolder HolderOf(const LockFile::Attempt& held);

struct LockWait {
  double timeout_seconds = 0;  // 0: one attempt
  // Takes lines for the user; may be null. `what` begins them.
  std::function<void(absl::string_view line)> say = {};
  std::string what = {};  // "another process tokenises \"a.txt\""
};

// Takes the lock file at `path` as LockFile::TryTake does. While a holder that
// may still live has it, tries again until the time is over. Returns the last
// attempt.
LockFile::Attempt AwaitLock(const std::string& path, const LockWait& wait);

}  // namespace castor

#endif  // CASTOR_BASE_LOCK_WAIT_H_
