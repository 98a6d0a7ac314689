// What the suites over compiled programs show together, once all have run: that
// each barrier in what nvcc made of the kernels is needed
// (kernels/ptx/machine.h).
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/compiled_device.h"

namespace castor::kernels {
namespace {

// Barriers of a program for which no launch shows a need, at most. What they
// are says docs/cuda.md, "Barriers without a need".
struct Needless {
  const char* program;  // a part of the kernel's name
  size_t barriers;
};
constexpr Needless kNeedless[] = {
    {"Attention", 2},
    {"Embedding", 5},
    {"Head", 3},
};

size_t AllowedNeedless(const std::string& kernel) {
  for (const Needless& known : kNeedless) {
    if (kernel.find(known.program) != std::string::npos) return known.barriers;
  }
  return 0;
}

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
      size_t count = 0;
      for (size_t i = 0; i < needed.size(); ++i) {
        if (needed[i]) continue;
        needless += " " + std::to_string(i);
        ++count;
      }
      EXPECT_LE(count, AllowedNeedless(kernel))
          << kernel << ": of " << needed.size()
          << " barriers, no launch needed those with the numbers" << needless;
    }
  }
};

[[maybe_unused]] const auto* const environment =
    testing::AddGlobalTestEnvironment(new EachBarrierIsNeeded);

}  // namespace
}  // namespace castor::kernels
