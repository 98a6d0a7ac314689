// Tells a process from the one that it was forked from.
#ifndef CASTOR_PYTHON_SHIM_FORKS_H_
#define CASTOR_PYTHON_SHIM_FORKS_H_

namespace castor::shim {

// Returns how many forks lie between the process that first called this and the
// one that calls it now. An object with threads works only while the number is
// the one with which it was made: a forked process has the memory, but only one
// thread.
int ForksSinceStart();

}  // namespace castor::shim

#endif  // CASTOR_PYTHON_SHIM_FORKS_H_
