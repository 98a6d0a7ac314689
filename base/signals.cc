#include "base/signals.h"

#include <signal.h>

namespace castor {
namespace {

// What a signal handler may touch.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// Unlike SIG_IGN a handler is not handed on to the programs that are started.
void OnWriteFailure(int) {}

void OnStopSignal(int) { stop_requested.store(true); }

void Handle(int signal, void (*handler)(int), int flags) {
  struct sigaction present = {};
  if (sigaction(signal, nullptr, &present) != 0 ||
      present.sa_handler == SIG_IGN) {
    return;
  }
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void FailWritesInsteadOfEnding() {
  Handle(SIGPIPE, OnWriteFailure, 0);
  Handle(SIGXFSZ, OnWriteFailure, 0);
}

void StopOnSignals() {
  Handle(SIGINT, OnStopSignal, SA_RESETHAND);
  Handle(SIGTERM, OnStopSignal, SA_RESETHAND);
  Handle(SIGHUP, OnStopSignal, 0);
}

const std::atomic<bool>* StopFlag() { return &stop_requested; }

}  // namespace castor
