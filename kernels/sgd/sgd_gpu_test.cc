// SGD on the GPU gives the host's bits.
#include "gtest/gtest.h"
#include "kernels/sgd/hypers_for_test.h"
#include "kernels/sgd/sgd.h"
#include "kernels/sgd/sgd_program.h"
#include "kernels/state_update/gpu_checks_for_test.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using SgdOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Arrays, SgdOnGpu, testing::Bool(), AlignmentName);

TEST_P(SgdOnGpu, GivesTheHostsBits) {
  for (const int bits : {0, 8, 16, 32}) {
    ASSERT_NO_FATAL_FAILURE(
        ExpectTheHostsBits<SgdArgs>(host_, bits, Shift(1), SgdHypers(bits)));
  }
}

TEST_P(SgdOnGpu, TakesManySmallRanges) {
  using Program = cuda::StateProgram<cuda::Sgd, BFloat16, BFloat16>;
  for (const int bits : {0, 8, 16, 32}) {
    ASSERT_NO_FATAL_FAILURE(
        (ExpectManySmallRangesToBeTaken<SgdArgs, Program::Pieces>(
            host_, bits, Shift(1), SgdHypers(bits))));
  }
}

TEST_P(SgdOnGpu, RefusesWhatTheHostRefuses) {
  ExpectBothToRefuseAlike<SgdArgs>(host_, 8);
}

}  // namespace
}  // namespace castor::kernels
