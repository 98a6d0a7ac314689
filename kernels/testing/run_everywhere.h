// Runs a host's kernel on every instruction set and number of threads, which
// may not show in its results.
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

// Runs `call`, which writes to copies of `outputs`, everywhere. The first run's
// results stay in `outputs`, and the others must equal them bit by bit.
inline void RunEverywhere(
    const std::vector<GuardedBuffer*>& outputs,
    const std::function<absl::Status(const ExecContext&,
                                     const std::vector<void*>&)>& call) {
  std::vector<GuardedBuffer> before;
  const auto add_copy = [](const GuardedBuffer& x,
                           std::vector<GuardedBuffer>& to) {
    to.emplace_back(x.dtype(), x.size(), x.shift()).CopyFrom(x);
  };
  for (const GuardedBuffer* x : outputs) add_copy(*x, before);
  bool first = true;
  ForEachTarget([&](const char* target) {
    SCOPED_TRACE(target);
    ForEachPool([&](const ExecContext& context) {
      std::vector<GuardedBuffer> results;
      std::vector<void*> pointers;
      for (const GuardedBuffer& x : before) add_copy(x, results);
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
  });
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_TESTING_RUN_EVERYWHERE_H_
