// What a process does about signals, in one place.
//
//   SIGPIPE, SIGXFSZ         a write that nobody reads, or that a limit on the
//                            size of files forbids, fails and says so, instead
//                            of ending the process
//   SIGINT, SIGTERM, SIGHUP  ask a run to stop: it ends its step and saves
//   SIGTERM                  elsewhere, where a rank waits for others: leaves
//   it a
//                            moment to say which of them died
//
// A signal that was ignored when the process started stays so: nohup ignores
// SIGHUP, a shell SIGINT of what it runs in the background. A library may have
// put a handler of its own there before main() (UCX, which Open MPI 5 brings,
// takes SIGHUP): RememberIgnoredSignals asks before it does.
#ifndef CASTOR_BASE_SIGNALS_H_
#define CASTOR_BASE_SIGNALS_H_

#include <atomic>

namespace castor {

// Notes which signals are ignored now. For a program's .preinit_array, which
// runs before the constructors of all libraries; without it, what is ignored is
// asked when it matters.
void RememberIgnoredSignals();

// Makes writes fail with EPIPE and EFBIG from now on. Programs that this one
// starts have the signals' usual effect again.
void FailWritesInsteadOfEnding();

// Makes the first SIGINT, SIGTERM or SIGHUP from now on set StopSignal. A
// second SIGINT or SIGTERM has its usual effect; SIGHUP has not, since a
// terminal that closes sends several.
void StopOnSignals();
// The number of the first of them, 0 before it. Lives as long as the process.
const std::atomic<int>* StopSignal();

// Launchers send a SIGTERM to every rank when one rank has died; by default it
// would end them before they can say what happened. From now on it raises the
// event `event_fd` (base/event.h) instead. False, and nothing changed, if the
// program has a handler of its own (StopOnSignals, say), if it ignores the
// signal, or if somebody has taken it already.
bool TakeSigterm(int event_fd);
// Whether one has come since.
bool SigtermCame();
// Undoes TakeSigterm.
void GiveSigtermBack();
// Gives it back and ends the process by it.
void EndBySigterm();

}  // namespace castor

#endif  // CASTOR_BASE_SIGNALS_H_
