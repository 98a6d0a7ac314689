// That the suite over compiled programs (//kernels:compiled_kernels_test) would
// see a wrong fragment, address, predicate or barrier in what nvcc made of
// attention: such mistakes are put into its PTX, one by one, and each must
// show.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/attention/trial.h"
#include "kernels/cuda/compiled_device.h"
#include "kernels/cuda/test_device.h"
#include "kernels/run.h"

namespace castor::kernels {
namespace {

using cuda::OnDevice;
using cuda::TestDevice;

// Several tiles of queries and of keys, in 16 bits, aligned: fragments and
// copies ahead, of which each has rows that are there.
AttentionShape Shape() {
  AttentionShape shape;
  shape.batch = 1;
  shape.positions = 150;
  shape.heads = 1;
  shape.head_size = 64;
  shape.dtype = DType::kBFloat16;
  shape.dropout = 0.2f;
  shape.key = {17, 1};
  return shape;
}

// Both passes with the compiled programs; what they report.
absl::Status RunCompiled(AttentionTrial& trial) {
  OnDevice on;
  const AttentionShape& shape = trial.shape;
  const int64_t bytes =
      std::max(AttentionForwardArgs{.shape = shape}.GpuWorkspaceBytes(),
               AttentionBackwardArgs{.shape = shape}.GpuWorkspaceBytes());
  const GuardedBuffer buffer = GuardedBuffer::Workspace(bytes);
  void* const workspace = on.CopyBytes(buffer.data(), bytes);
  std::vector<void*> x, dx;
  for (GuardedBuffer& part : trial.x.buffers()) x.push_back(on.Out(part));
  for (GuardedBuffer& part : trial.dx.buffers()) dx.push_back(on.Out(part));
  void* const out = on.Out(trial.out);
  float* const lse = on.OutFloats(trial.lse);
  absl::Status status =
      kernels::Run(on.context(), AttentionForwardArgs{.shape = shape,
                                                      .q = trial.x.In(x, 0),
                                                      .k = trial.x.In(x, 1),
                                                      .v = trial.x.In(x, 2),
                                                      .out = out,
                                                      .lse = lse,
                                                      .workspace = workspace});
  status.Update(kernels::Run(on.context(),
                             AttentionBackwardArgs{.shape = shape,
                                                   .q = trial.x.In(x, 0),
                                                   .k = trial.x.In(x, 1),
                                                   .v = trial.x.In(x, 2),
                                                   .out = out,
                                                   .lse = lse,
                                                   .dout = on.In(trial.dout),
                                                   .dq = trial.dx.In(dx, 0),
                                                   .dk = trial.dx.In(dx, 1),
                                                   .dv = trial.dx.In(dx, 2),
                                                   .workspace = workspace}));
  status.Update(on.Finish());
  return status;
}

// As the suite compares (attention_gpu_test.cc).
bool IsNear(const std::vector<double>& got, const std::vector<double>& expected,
            double tolerance) {
  for (size_t i = 0; i < got.size(); ++i) {
    // A NaN is not near.
    if (!(std::abs(got[i] - expected[i]) <=
          tolerance * (1 + std::abs(expected[i])))) {
      return false;
    }
  }
  return true;
}
std::vector<double> ValuesOf(const GuardedBuffer& x) {
  std::vector<double> values(x.size());
  for (int64_t i = 0; i < x.size(); ++i) values[i] = x[i];
  return values;
}

class CompiledMistakes : public testing::Test {
 protected:
  CompiledMistakes() : expected_(Shape()) {
    const ExecContext host{&pool_};
    EXPECT_TRUE(expected_.Both(host).ok());
  }
  ~CompiledMistakes() override { cuda::EditCompiledKernels(nullptr); }

  // What is wrong with the results in some order of warps; empty: nothing.
  std::string WhatIsWrong() {
    std::string wrong;
    TestDevice::Get()->InEveryOrder([&] {
      if (!wrong.empty()) return;
      AttentionTrial got(Shape());
      const absl::Status status = RunCompiled(got);
      const double unit =
          4 * UnitRoundoff(DType::kBFloat16) / (1 - Shape().dropout);
      if (!status.ok()) {
        wrong = std::string(status.message());
      } else if (!got.GuardsIntact()) {
        wrong = "guards";
      } else if (!IsNear(ValuesOf(got.lse), ValuesOf(expected_.lse), 0x1p-17)) {
        wrong = "lse";
      } else if (!IsNear(ValuesOf(got.out), ValuesOf(expected_.out), unit)) {
        wrong = "out";
      }
      for (int part = 0; part < 3 && wrong.empty(); ++part) {
        if (!IsNear(got.dx.Values(part), expected_.dx.Values(part), 2 * unit)) {
          wrong = absl::StrCat("gradient ", part);
        }
      }
    });
    return wrong;
  }

  // Behind `where`, and before the instruction's end, changes `from` to `to`:
  // at one place after the other, every `step`-th, in the programs that ran on
  // the matrix units. Each must show.
  void ExpectSeen(const std::string& where, const std::string& from,
                  const std::string& to, int step) {
    int mistakes = 0;
    for (int skip = 0;; skip += step) {
      int left = skip;
      std::string changed;
      cuda::EditCompiledKernels(
          [&](const std::string& name, std::string* kernel) {
            if (!changed.empty() || name.find("AttentionMma") == name.npos)
              return;
            size_t at = 0;
            for (; (at = kernel->find(where, at)) != kernel->npos; ++at) {
              const size_t begin = kernel->find(from, at);
              if (begin > kernel->find(';', at) || left-- > 0) continue;
              kernel->replace(begin, from.size(), to);
              changed = name;
              return;
            }
          });
      const std::string wrong = WhatIsWrong();
      if (changed.empty()) break;
      ++mistakes;
      EXPECT_NE(wrong, "") << where << " " << skip << " in " << changed;
    }
    EXPECT_GT(mistakes, 0) << where;
  }

  ThreadPool pool_{2};
  AttentionTrial expected_;
};

TEST_F(CompiledMistakes, AreNotThereBefore) { EXPECT_EQ(WhatIsWrong(), ""); }

TEST_F(CompiledMistakes, InBarriersShow) {
  ExpectSeen("bar.sync 0;", "bar.sync 0;", ";", 1);
}
TEST_F(CompiledMistakes, InWaitsForCopiesShow) {
  ExpectSeen("cp.async.wait_all;", "cp.async.wait_all;", ";", 1);
}
// A block that does not pass its turn on: others wait for ever.
TEST_F(CompiledMistakes, InTurnsShow) {
  // The other place, behind a tile's last step, has nobody who waits here.
  ExpectSeen("red.release", "1;", "0;", 2);
}
// Rows that are there are not copied, and those behind the last one are.
TEST_F(CompiledMistakes, InPredicatesOfCopiesShow) {
  ExpectSeen("selp.b32", ", 16, 0,", ", 0, 16,", 5);
}
TEST_F(CompiledMistakes, InAddressesOfFragmentsShow) {
  ExpectSeen("ldmatrix", "];", "+16];", 10);
}
TEST_F(CompiledMistakes, InAddressesOfResultsShow) {
  ExpectSeen("st.global.u32", "]", "+4]", 20);
}
TEST_F(CompiledMistakes, InTransposedFragmentsShow) {
  ExpectSeen("ldmatrix", ".x4.trans", ".x4", 5);
}
TEST_F(CompiledMistakes, InFragmentsShow) {
  ExpectSeen("ldmatrix", ".x4.shared", ".x4.trans.shared", 10);
}
TEST_F(CompiledMistakes, InProductsShow) {
  ExpectSeen("mma.sync", "bf16.bf16", "f16.f16", 40);
}

}  // namespace
}  // namespace castor::kernels
