// Takes requests of castor resize to a run, and hands them to its thread, which
// looks between two steps.
#ifndef CASTOR_CLI_RESIZE_MEMORY_REQUESTS_H_
#define CASTOR_CLI_RESIZE_MEMORY_REQUESTS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "cli/resize/control_socket.h"

namespace castor::cli {

// Returns the request that castor resize sends.
std::string MemoryRequest(int64_t bytes);

// Threads: Open, Answer and Close are called from the run's.
class MemoryRequests {
 public:
  MemoryRequests() = default;
  ~MemoryRequests() { Close(); }

  // The budget that is asked for, or 0 (TrainerOptions::device_memory_request).
  const std::atomic<int64_t>* asked() const { return &asked_; }
  // Takes requests from now on.
  absl::Status Open();
  // Answers the request for these bytes, if there is one.
  void Answer(int64_t bytes, ControlAnswer answer);
  // Takes no more requests; one that waits gets no other answer.
  void Close();

 private:
  // Hands a request over, on the listener's thread, and waits for the answer.
  ControlAnswer Ask(const std::string& request);

  std::atomic<int64_t> asked_{0};
  std::mutex mutex_;  // guards the members below
  std::condition_variable answered_;
  ControlAnswer answer_;
  bool closed_ = false;
  std::unique_ptr<ControlListener> listener_;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_RESIZE_MEMORY_REQUESTS_H_
