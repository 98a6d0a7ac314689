// Where a property test's runs take place. One implementation is linked into
// each test:
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

// Why nothing can be run, "" if it can.
std::string WhyNoTestMachine();

// `c`, to be run there, if that can be. Once is enough.
TrainingCase OnTestMachine(TrainingCase c);

// Ranks that a case may have.
int MostRanksOnTestMachine();

// Placements that a property test draws, if it is not told how many: a few
// minutes' worth.
int64_t PlacementsOnTestMachine();

}  // namespace castor::testing

#endif  // CASTOR_TESTS_TEST_MACHINE_H_
