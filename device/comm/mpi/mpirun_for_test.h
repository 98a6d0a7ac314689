// Starts a test, or a helper, under mpirun.
#ifndef CASTOR_DEVICE_COMM_MPI_MPIRUN_FOR_TEST_H_
#define CASTOR_DEVICE_COMM_MPI_MPIRUN_FOR_TEST_H_

#include <string>
#include <vector>

namespace castor {

// Returns true if this process is a rank already.
bool UnderMpirun();

// Prepares this process's environment for Open MPI's mpirun in a test: as root
// if need be, with more ranks than cores, on loopback only.
void SetMpirunEnvironment();

// Returns mpirun and its arguments, to start `ranks` ranks of `program` and to
// end them after `limit_s`.
std::vector<std::string> MpirunWords(int ranks, int limit_s,
                                     const std::vector<std::string>& program);

// Becomes mpirun with `ranks` ranks of `program`, which it ends after
// `limit_s`. Returns only if that fails.
void ExecMpirun(int ranks, int limit_s,
                const std::vector<std::string>& program);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_MPI_MPIRUN_FOR_TEST_H_
