// The machine on which a property test's runs take place. One implementation is
// linked into each test:
//   host_machine.cc          the host device, ranks as threads
//   emulated_gpu_machine.cc  the CUDA device and the GPU's kernels, over a GPU
//                            made of threads (device/cuda/fake_api.h) on which
//                            kernels run thread after thread
//   gpu_machine.cc           the first GPU of this machine
#ifndef CASTOR_TESTS_TEST_MACHINE_H_
#define CASTOR_TESTS_TEST_MACHINE_H_

#include <cstdint>
#include <string>

#include "tests/training_harness.h"

namespace castor::testing {

// Returns why nothing can be run there, or "" if runs are possible.
std::string WhyNoTestMachine();

// Returns `c`, to be run there, if that is possible. Calling it once is enough.
TrainingCase OnTestMachine(TrainingCase c);

// Returns the most ranks that a case may have.
int MostRanksOnTestMachine();

// Returns the number of placements that a property test draws, if it is not
// told how many: a few minutes' worth.
int64_t PlacementsOnTestMachine();

}  // namespace castor::testing

#endif  // CASTOR_TESTS_TEST_MACHINE_H_
