// A SIGTERM that waits a moment. Launchers send one to every rank when one rank
// has died; by default it would end them before they can say what happened.
#ifndef CASTOR_DEVICE_COMM_SIGTERM_H_
#define CASTOR_DEVICE_COMM_SIGTERM_H_

namespace castor {

// From now on SIGTERM raises the event `event_fd` instead of ending the
// process. False, and nothing changed, if the program has a handler of its own
// (or ignores the signal), or if somebody has taken it already.
bool TakeSigterm(int event_fd);

// Whether one has come since.
bool SigtermCame();

// Undoes TakeSigterm.
void GiveSigtermBack();

// Gives it back and ends the process by it.
void EndBySigterm();

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_SIGTERM_H_
