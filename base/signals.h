// Handles all signals of a process in one place.
//
//   SIGPIPE, SIGXFSZ         a write that nobody reads, or that a limit on the
//                            size of files forbids, fails with an error instead
//                            of ending the process
//   SIGINT, SIGTERM, SIGHUP  ask a run to stop: it ends its step and saves
//   SIGTERM                  elsewhere, where a rank waits for others: gives it
//                            a moment to report which of them died
//
// A signal that was ignored when the process started stays ignored: nohup
// ignores SIGHUP, and a shell SIGINT of background processes. A library may
// install a handler of its own before main() (UCX, a part of Open MPI 5, takes
// SIGHUP): RememberIgnoredSignals reads the state before that.
#ifndef CASTOR_BASE_SIGNALS_H_
#define CASTOR_BASE_SIGNALS_H_

#include <atomic>

namespace castor {

// Notes the signals that are ignored now. For a program's .preinit_array, which
// runs before the constructors of all libraries; without this call, the state
// is read when it is needed.
void RememberIgnoredSignals();

// Makes writes fail with EPIPE and EFBIG from now on. Programs that this one
// starts have the signals' usual effect again.
void FailWritesInsteadOfEnding();

// Makes the first SIGINT, SIGTERM or SIGHUP from now on set StopSignal. A
// second SIGINT or SIGTERM has its usual effect; SIGHUP has not, since a
// terminal that closes sends several.
void StopOnSignals();
// Returns the number of the first such signal, 0 before it. It lives as long as
// the process.
const std::atomic<int>* StopSignal();

// Makes SIGTERM raise the event `event_fd` (base/event.h) from now on:
// launchers send it to every rank when one has died, and by default it would
// end them before they can report that. Returns false, and changes nothing, if
// the program has a handler of its own (by StopOnSignals, say), ignores the
// signal, or has taken it already.
bool TakeSigterm(int event_fd);
// Returns true if a SIGTERM has come since.
bool SigtermCame();
// Undoes TakeSigterm.
void GiveSigtermBack();
// Gives SIGTERM back and ends the process by it.
void EndBySigterm();

}  // namespace castor

#endif  // CASTOR_BASE_SIGNALS_H_
