// Adam with packed moments on the GPU gives the host's bits.
#include "gtest/gtest.h"
#include "kernels/packed_adam/hypers_for_test.h"
#include "kernels/packed_adam/packed_adam.h"
#include "kernels/packed_adam/packed_adam_program.h"
#include "kernels/state_update/gpu_checks_for_test.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using PackedAdamOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Arrays, PackedAdamOnGpu, testing::Bool(),
                         AlignmentName);

TEST_P(PackedAdamOnGpu, GivesTheHostsBits) {
  for (const StateFormat master : kMasterFormatsForTest) {
    for (const int bits : {8, 16, 32}) {
      ASSERT_NO_FATAL_FAILURE(ExpectTheHostsBits<PackedAdamArgs>(
          host_, bits, Shift(1), PackedHypers(), master));
    }
  }
}

TEST_P(PackedAdamOnGpu, TakesManySmallRanges) {
  using Program = cuda::StateProgram<cuda::PackedAdam, BFloat16, BFloat16>;
  for (const int bits : {8, 16}) {
    ASSERT_NO_FATAL_FAILURE(
        (ExpectManySmallRangesToBeTaken<PackedAdamArgs, Program::Pieces>(
            host_, bits, Shift(1), PackedHypers(),
            bits == 8 ? StateFormat::kSplit : StateFormat::kBFloat16)));
  }
}

TEST_P(PackedAdamOnGpu, RefusesWhatTheHostRefuses) {
  ExpectBothToRefuseAlike<PackedAdamArgs>(host_, 8);
}

}  // namespace
}  // namespace castor::kernels
