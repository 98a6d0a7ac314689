// Starts threads, with errors as a Status.
//
// std::thread's constructor throws when the system gives no thread, which ends
// a program that expects no exceptions. Every thread of the product is started
// here instead, so that a limit on threads (ulimit -u, a control group's
// pids.max) or on memory becomes an error.
#ifndef CASTOR_BASE_THREAD_H_
#define CASTOR_BASE_THREAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

// Runs `body` on a thread of its own, which the caller joins. `purpose` tells
// the user what the thread is for: "the trace's writer". ResourceExhausted: the
// system gives no thread; `body` was not run and is destroyed.
absl::StatusOr<std::thread> StartThread(absl::string_view purpose,
                                        std::function<void()> body);

// Does the same for work that may take its time: the system runs the thread
// after others where they want the same processor (on Linux as SCHED_BATCH, so
// that it takes none from a thread at once, and five steps of niceness below
// the caller). Where the system refuses that, it is a thread like any other.
absl::StatusOr<std::thread> StartBackgroundThread(absl::string_view purpose,
                                                  std::function<void()> body);

namespace internal {

// The number of threads after which StartThread fails, set by tests. Below 0,
// as at the start, there is no such limit.
extern std::atomic<int64_t> threads_left_for_test;

}  // namespace internal
}  // namespace castor

#endif  // CASTOR_BASE_THREAD_H_
