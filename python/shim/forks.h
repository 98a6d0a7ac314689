// Tells a process from the one that it was forked from.
#ifndef CASTOR_PYTHON_SHIM_FORKS_H_
#define CASTOR_PYTHON_SHIM_FORKS_H_

namespace castor::shim {

// How many forks lie between the process that first called this and the one
// that calls it now. What has threads works only where the number is the one
// that it was made with: a forked process has the memory and no thread but one.
int ForksSinceStart();

}  // namespace castor::shim

#endif  // CASTOR_PYTHON_SHIM_FORKS_H_
