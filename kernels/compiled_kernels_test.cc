// Checks, once all suites over compiled programs have run, what they show
// together: each barrier in the kernels as nvcc compiled them is needed
// (kernels/ptx/machine.h).
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/compiled_device.h"

namespace castor::kernels {
namespace {

class EachBarrierIsNeeded : public testing::Environment {
 public:
  void TearDown() override {
    const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
    // Some tests know of some barriers only.
    if (tests.test_to_run_count() != tests.total_test_count() ||
        tests.failed_test_count() > 0) {
      return;
    }
    for (const auto& [kernel, needed] :
         cuda::NeededBarriersOfCompiledKernels()) {
      std::string needless;
      for (size_t i = 0; i < needed.size(); ++i) {
        if (!needed[i]) needless += " " + std::to_string(i);
      }
      EXPECT_EQ(needless, "")
          << kernel << ": of " << needed.size()
          << " barriers, no launch needed those with the numbers above";
    }
  }
};

[[maybe_unused]] const auto* const environment =
    testing::AddGlobalTestEnvironment(new EachBarrierIsNeeded);

}  // namespace
}  // namespace castor::kernels
