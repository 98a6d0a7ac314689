// The faults that calls can meet: the table of functions and errnos.
#ifndef CASTOR_TESTS_FAULTS_POSSIBLE_FAULTS_H_
#define CASTOR_TESTS_FAULTS_POSSIBLE_FAULTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/faults/interposer/control.h"

namespace castor::faults {

// Returns the faults that the manual pages of sections 2 and 3 have, without
// those that only a wrong argument brings about (EBADF, EFAULT): these are
// defects, which the tests of the functions look for. Empty: nothing can go
// wrong.
std::vector<int32_t> PossibleFaults(const std::string& function, Object object);

// "ENOSPC", "short", "end", or for getaddrinfo "EAI_AGAIN".
std::string FaultName(const std::string& function, int32_t fault);

}  // namespace castor::faults

#endif  // CASTOR_TESTS_FAULTS_POSSIBLE_FAULTS_H_
