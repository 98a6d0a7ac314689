// Lion on the GPU gives the host's bits.
#include "gtest/gtest.h"
#include "kernels/lion/hypers_for_test.h"
#include "kernels/lion/lion.h"
#include "kernels/lion/lion_program.h"
#include "kernels/state_update/gpu_checks_for_test.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using LionOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Arrays, LionOnGpu, testing::Bool(), AlignmentName);

TEST_P(LionOnGpu, GivesTheHostsBits) {
  for (const int bits : {8, 16, 32}) {
    ASSERT_NO_FATAL_FAILURE(
        ExpectTheHostsBits<LionArgs>(host_, bits, Shift(1), LionHypers()));
  }
}

TEST_P(LionOnGpu, TakesManySmallRanges) {
  using Program = cuda::StateProgram<cuda::Lion, BFloat16, BFloat16>;
  for (const int bits : {8, 16, 32}) {
    ASSERT_NO_FATAL_FAILURE(
        (ExpectManySmallRangesToBeTaken<LionArgs, Program::Pieces>(
            host_, bits, Shift(1), LionHypers())));
  }
}

TEST_P(LionOnGpu, RefusesWhatTheHostRefuses) {
  ExpectBothToRefuseAlike<LionArgs>(host_, 8);
}

}  // namespace
}  // namespace castor::kernels
