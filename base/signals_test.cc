#include "base/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace castor {
namespace {

// Each case in a process of its own, since handlers stay.

void WriteToABrokenPipe() {
  FailWritesInsteadOfEnding();
  int ends[2];
  if (pipe(ends) != 0) _exit(1);
  close(ends[0]);
  _exit(write(ends[1], "x", 1) == -1 && errno == EPIPE ? 0 : 2);
}

TEST(SignalsDeathTest, WriteThatNobodyReadsFails) {
  EXPECT_EXIT(WriteToABrokenPipe(), testing::ExitedWithCode(0), "");
}

void WriteBeyondTheLimit() {
  FailWritesInsteadOfEnding();
  const rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
  char name[] = "/tmp/castor_signals_XXXXXX";
  const int file = mkstemp(name);
  unlink(name);
  if (file < 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
  _exit(pwrite(file, "x", 1, 4096) == -1 && errno == EFBIG ? 0 : 2);
}

TEST(SignalsDeathTest, WriteBeyondTheLimitOfFilesFails) {
  EXPECT_EXIT(WriteBeyondTheLimit(), testing::ExitedWithCode(0), "");
}

void StartAProgramThatABrokenPipeEnds() {
  FailWritesInsteadOfEnding();
  const int status = std::system("kill -PIPE $$");
  _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE ? 0 : 2);
}

TEST(SignalsDeathTest, ProgramsThatAreStartedHaveTheUsualEffect) {
  EXPECT_EXIT(StartAProgramThatABrokenPipeEnds(), testing::ExitedWithCode(0),
              "");
}

// A library's constructor took the signal that nohup had ignored.
void StayIgnoredUnderALibrarysHandler() {
  signal(SIGHUP, SIG_IGN);
  RememberIgnoredSignals();
  signal(SIGHUP, [](int) { _exit(2); });
  StopOnSignals();
  raise(SIGHUP);
  _exit(StopSignal()->load() != 0 ? 3 : 0);
}

TEST(SignalsDeathTest, WhatWasIgnoredAtTheStartStaysSo) {
  EXPECT_EXIT(StayIgnoredUnderALibrarysHandler(), testing::ExitedWithCode(0),
              "");
}

class StopSignalDeathTest : public testing::TestWithParam<int> {};

// Ends with 0 if the first signal asked for a stop, as the second one where
// that ends the process.
void Stop(int signal) {
  StopOnSignals();
  const std::atomic<int>* const stop = StopSignal();
  if (stop->load() != 0) _exit(1);
  raise(signal);
  if (stop->load() != signal) _exit(2);
  raise(signal);
  _exit(0);
}

TEST_P(StopSignalDeathTest, AsksForAStopAndASecondOneHasItsUsualEffect) {
  if (GetParam() == SIGHUP) {
    // A shell and the system each send one when a terminal closes.
    EXPECT_EXIT(Stop(SIGHUP), testing::ExitedWithCode(0), "");
  } else {
    EXPECT_EXIT(Stop(GetParam()), testing::KilledBySignal(GetParam()), "");
  }
}

void StopIgnored(int signal) {
  ::signal(signal, SIG_IGN);
  StopOnSignals();
  const std::atomic<int>* const stop = StopSignal();
  raise(signal);
  _exit(stop->load() != 0 ? 2 : 0);
}

TEST_P(StopSignalDeathTest, IsIgnoredWhereItWasBefore) {
  EXPECT_EXIT(StopIgnored(GetParam()), testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Signals, StopSignalDeathTest,
                         testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& info) {
                           return sigabbrev_np(info.param);
                         });

}  // namespace
}  // namespace castor
