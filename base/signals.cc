#include "base/signals.h"

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <initializer_list>

#include "base/event.h"

namespace castor {
namespace {

// The state that signal handlers use.
std::atomic<int> stop_signal{0};
std::atomic<int> sigterm_event{-1};
std::atomic<bool> sigterm_came{false};
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);

// Unlike SIG_IGN a handler is not handed on to the programs that are started.
void OnWriteFailure(int) {}

void OnStopSignal(int signal) {
  int none = 0;
  stop_signal.compare_exchange_strong(none, signal);
}

void OnSigterm(int) {
  sigterm_came.store(true);
  if (const int fd = sigterm_event.load(); fd >= 0) RaiseEvent(fd);
}

bool IsIgnored(int signal) {
  struct sigaction present = {};
  return sigaction(signal, nullptr, &present) == 0 &&
         present.sa_handler == SIG_IGN;
}

// The signals that were ignored at the start, as bits. No constructor sets it:
// it is written before any has run.
uint64_t ignored_at_start = 0;

uint64_t Bit(int signal) { return uint64_t{1} << signal; }

void Handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  if (IsIgnored(signal)) return;
  if ((ignored_at_start & Bit(signal)) != 0) {
    action.sa_handler = SIG_IGN;  // again
  } else {
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | flags;
  }
  sigaction(signal, &action, nullptr);
}

}  // namespace

void RememberIgnoredSignals() {
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGHUP}) {
    if (IsIgnored(signal)) ignored_at_start |= Bit(signal);
  }
}

void FailWritesInsteadOfEnding() {
  Handle(SIGPIPE, OnWriteFailure, 0);
  Handle(SIGXFSZ, OnWriteFailure, 0);
}

void StopOnSignals() {
  Handle(SIGINT, OnStopSignal, SA_RESETHAND);
  Handle(SIGTERM, OnStopSignal, SA_RESETHAND);
  Handle(SIGHUP, OnStopSignal, 0);
}

const std::atomic<int>* StopSignal() { return &stop_signal; }

bool TakeSigterm(int event_fd) {
  struct sigaction present = {};
  if (sigaction(SIGTERM, nullptr, &present) != 0 ||
      present.sa_handler != SIG_DFL) {
    return false;
  }
  sigterm_came.store(false);
  sigterm_event.store(event_fd);
  struct sigaction action = {};
  action.sa_handler = OnSigterm;
  action.sa_flags = SA_RESTART;
  return sigaction(SIGTERM, &action, nullptr) == 0;
}

bool SigtermCame() { return sigterm_came.load(); }

void GiveSigtermBack() {
  // The program may have put a handler of its own in its place meanwhile.
  struct sigaction present = {};
  if (sigaction(SIGTERM, nullptr, &present) == 0 &&
      present.sa_handler == OnSigterm) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(SIGTERM, &action, nullptr);
  }
  sigterm_event.store(-1);
}

void EndBySigterm() {
  GiveSigtermBack();
  kill(getpid(), SIGTERM);
}

}  // namespace castor
