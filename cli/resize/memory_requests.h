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

// What castor resize sends.
std::string MemoryRequest(int64_t bytes);

// Threads: Open, Answer and Close from the run's.
class MemoryRequests {
 public:
  MemoryRequests() = default;
  ~MemoryRequests() { Close(); }

  // The budget that is asked for, or 0 (TrainerOptions::device_memory_request).
  const std::atomic<int64_t>* asked() const { return &asked_; }
  // Requests are taken from now on.
  absl::Status Open();
  // The answer to the request for these bytes, if there is one.
  void Answer(int64_t bytes, ControlAnswer answer);
  // No request is taken any more; one that waits gets no other answer.
  void Close();

 private:
  // On the listener's thread; waits for the answer.
  ControlAnswer Ask(const std::string& request);

  std::atomic<int64_t> asked_{0};
  std::mutex mutex_;  // guards what follows
  std::condition_variable answered_;
  ControlAnswer answer_;
  bool closed_ = false;
  std::unique_ptr<ControlListener> listener_;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_RESIZE_MEMORY_REQUESTS_H_
