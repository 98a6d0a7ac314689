// Loops for tests of kernels: over pools of several sizes, every instruction
// set of the processor, element types.
#ifndef CASTOR_KERNELS_TESTING_KERNEL_TEST_UTIL_H_
#define CASTOR_KERNELS_TESTING_KERNEL_TEST_UTIL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "base/dtype.h"
#include "base/thread_pool.h"
#include "base/with_type.h"
#include "device/device.h"
#include "hwy/targets.h"

namespace castor::kernels {

// Sizes on both sides of vectors, partial sums and tiles of a task.
inline constexpr int64_t kTestSizes[] = {
    0,  1,  2,  7,   8,   15,   16,    17,    31,    32,    33,
    63, 64, 65, 127, 129, 1000, 32767, 32768, 32769, 100003};

// Runs `body` with pools of 1, 2 and 3 threads.
inline void ForEachPool(const std::function<void(const ExecContext&)>& body) {
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    body(ExecContext{&pool});
  }
}

// Runs `body` once per instruction set that this processor has and the kernels
// are compiled for, the scalar code among them. `target` names it in messages.
inline void ForEachTarget(const std::function<void(const char*)>& body) {
  const int64_t supported = hwy::SupportedTargets();
  for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_NEON, HWY_SCALAR}) {
    if (target != HWY_SCALAR && (supported & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_TESTING_KERNEL_TEST_UTIL_H_
