#include "base/thread.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace castor {
namespace internal {

std::atomic<int64_t> threads_left_for_test{-1};

}  // namespace internal

namespace {

// Returns true if a test wants this thread to fail.
bool FailsForTest() {
  int64_t left = internal::threads_left_for_test.load();
  while (left > 0 && !internal::threads_left_for_test.compare_exchange_weak(
                         left, left - 1)) {
  }
  return left == 0;
}

// The calling thread goes after others from now on, as far as it may.
void StepBack() {
  constexpr int kSteps = 5;
  // Any other policy was chosen by somebody: SCHED_IDLE already puts the thread
  // further behind, and a real-time one ahead of others.
  if (sched_getscheduler(/*pid=*/0) == SCHED_OTHER) {
    const sched_param param = {};
    sched_setscheduler(/*pid=*/0, SCHED_BATCH, &param);
  }
  // On Linux niceness is a thread's own (setpriority(2)).
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + kSteps);
}

}  // namespace

absl::StatusOr<std::thread> StartThread(absl::string_view purpose,
                                        std::function<void()> body) {
  std::error_code error;
  if (FailsForTest()) {
    error = std::make_error_code(std::errc::resource_unavailable_try_again);
  } else {
    // The one place where a thread's failure can be caught.
    try {
      return std::thread(std::move(body));
    } catch (const std::system_error& failure) {
      error = failure.code();
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the system gives no thread for ", purpose, ": ", error.message(),
      "; raise the limit on threads (ulimit -u, a control group's pids.max) or "
      "free memory"));
}

absl::StatusOr<std::thread> StartBackgroundThread(absl::string_view purpose,
                                                  std::function<void()> body) {
  return StartThread(purpose, [body = std::move(body)] {
    StepBack();
    body();
  });
}

}  // namespace castor
