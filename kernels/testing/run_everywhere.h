// Runs a kernel of the host with several numbers of threads, and with every
// instruction set, on which its results must not depend.
#ifndef CASTOR_KERNELS_TESTING_RUN_EVERYWHERE_H_
#define CASTOR_KERNELS_TESTING_RUN_EVERYWHERE_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "device/device.h"
#include "gtest/gtest.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {

using KernelCall =
    std::function<absl::Status(const ExecContext&, const std::vector<void*>&)>;

inline void AddCopy(const GuardedBuffer& x, std::vector<GuardedBuffer>& to) {
  to.emplace_back(x.dtype(), x.size(), x.shift()).CopyFrom(x);
}

// Runs `call`, which writes to copies of `outputs`, on every pool. The first
// run's results stay in `outputs`, and the others must equal them bit by bit.
inline void RunOnEveryPool(const std::vector<GuardedBuffer*>& outputs,
                           const KernelCall& call) {
  std::vector<GuardedBuffer> before;
  for (const GuardedBuffer* x : outputs) AddCopy(*x, before);
  bool first = true;
  ForEachPool([&](const ExecContext& context) {
    std::vector<GuardedBuffer> results;
    std::vector<void*> pointers;
    for (const GuardedBuffer& x : before) AddCopy(x, results);
    for (GuardedBuffer& x : results) pointers.push_back(x.data());
    const absl::Status status = call(context, pointers);
    ASSERT_TRUE(status.ok()) << status;
    for (size_t i = 0; i < outputs.size(); ++i) {
      ASSERT_TRUE(results[i].GuardsIntact()) << "output " << i;
      if (first) outputs[i]->CopyFrom(results[i]);
      ASSERT_TRUE(results[i].SameBits(*outputs[i])) << "output " << i;
    }
    first = false;
  });
}

// Does the same on every instruction set, for kernels that use no functions
// (exp) whose bits differ between those.
inline void RunEverywhere(const std::vector<GuardedBuffer*>& outputs,
                          const KernelCall& call) {
  std::vector<GuardedBuffer> before, results;
  for (const GuardedBuffer* x : outputs) AddCopy(*x, before);
  ForEachTarget([&](const char* target) {
    SCOPED_TRACE(target);
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i]->CopyFrom(before[i]);
    }
    RunOnEveryPool(outputs, call);
    const bool first = results.empty();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (first) AddCopy(*outputs[i], results);
      ASSERT_TRUE(results[i].SameBits(*outputs[i])) << "output " << i;
    }
  });
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_TESTING_RUN_EVERYWHERE_H_
