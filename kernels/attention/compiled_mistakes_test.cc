// Tests that the suite over compiled programs (//kernels:compiled_kernels_test)
// would see a wrong fragment, address, predicate, barrier or turn in attention
// as nvcc compiled it: such mistakes are put into its PTX, one by one, and each
// must show.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/document_range.h"
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
AttentionShape Shape16() {
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

// Several tiles of keys add to each of a few queries, on the matrix units, or
// in fp32 without them.
AttentionShape ShapeOfTurns(DType dtype) {
  AttentionShape shape = Shape16();
  shape.dtype = dtype;
  shape.positions = 40;
  shape.keys = dtype == DType::kFloat32 ? 150 : 500;
  shape.mask = AttentionMask::All();
  return shape;
}
constexpr DType kTypesOfTurns[] = {DType::kBFloat16, DType::kFloat32};

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
  const DocumentRange* const documents =
      trial.documents.empty() ? nullptr : on.In(trial.documents);
  absl::Status status =
      kernels::Run(on.context(), AttentionForwardArgs{.shape = shape,
                                                      .q = trial.x.In(x, 0),
                                                      .k = trial.x.In(x, 1),
                                                      .v = trial.x.In(x, 2),
                                                      .documents = documents,
                                                      .out = out,
                                                      .lse = lse,
                                                      .workspace = workspace});
  status.Update(kernels::Run(on.context(),
                             AttentionBackwardArgs{.shape = shape,
                                                   .q = trial.x.In(x, 0),
                                                   .k = trial.x.In(x, 1),
                                                   .v = trial.x.In(x, 2),
                                                   .documents = documents,
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
  CompiledMistakes() { Use(Shape16()); }
  ~CompiledMistakes() override { cuda::EditCompiledKernels(nullptr); }

  void Use(const AttentionShape& shape,
           std::vector<DocumentRange> documents = {}) {
    expected_.emplace(
        shape, AttentionTrial::Options{.documents = std::move(documents)});
    const ExecContext host{&pool_};
    EXPECT_TRUE(expected_->Both(host).ok());
  }

  // Returns what is wrong with the results in some order of warps; empty:
  // nothing.
  std::string WhatIsWrong() {
    std::string wrong;
    TestDevice::Get()->InEveryOrder([&] {
      if (!wrong.empty()) return;
      const AttentionShape& shape = expected_->shape;
      AttentionTrial got(shape, {.documents = expected_->documents});
      const absl::Status status = RunCompiled(got);
      const double unit =
          (shape.dtype == DType::kFloat32 ? 0x1p-17
                                          : 4 * UnitRoundoff(shape.dtype)) /
          (1 - shape.dropout);
      if (!status.ok()) {
        wrong = std::string(status.message());
      } else if (!got.GuardsIntact()) {
        wrong = "guards";
      } else if (!IsNear(ValuesOf(got.lse), ValuesOf(expected_->lse),
                         0x1p-17)) {
        wrong = "lse";
      } else if (!IsNear(ValuesOf(got.out), ValuesOf(expected_->out), unit)) {
        wrong = "out";
      }
      for (int part = 0; part < 3 && wrong.empty(); ++part) {
        if (!IsNear(got.dx.Values(part), expected_->dx.Values(part),
                    2 * unit)) {
          wrong = absl::StrCat("gradient ", part);
        }
      }
    });
    return wrong;
  }

  // Behind `where`, and before `until`, changes `from` to `to`: at one place
  // after the other, every `step`-th, in both passes' programs. Each must show.
  void ExpectSeen(const std::string& where, const std::string& from,
                  const std::string& to, int step,
                  const std::string& until = ";") {
    int mistakes = 0;
    for (int skip = 0;; skip += step) {
      int left = skip;
      std::string changed;
      cuda::EditCompiledKernels([&](const std::string& name,
                                    std::string* kernel) {
        if (!changed.empty() || (name.find("AttentionMma") == name.npos &&
                                 name.find("AttentionBackward") == name.npos)) {
          return;
        }
        size_t at = 0;
        for (; (at = kernel->find(where, at)) != kernel->npos; ++at) {
          const size_t begin = kernel->find(from, at);
          if (begin > kernel->find(until, at) || left-- > 0) continue;
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
  std::optional<AttentionTrial> expected_;
};

TEST_F(CompiledMistakes, AreNotThereBefore) {
  EXPECT_EQ(WhatIsWrong(), "");
  for (DType dtype : kTypesOfTurns) {
    Use(ShapeOfTurns(dtype));
    EXPECT_EQ(WhatIsWrong(), "");
  }
}

// One of the barriers is for the data that say where documents are.
TEST_F(CompiledMistakes, InBarriersShow) {
  Use(Shape16(), DocumentsOfLengths(1, {90, 60}));
  ExpectSeen("bar.sync 0;", "bar.sync 0;", ";", 1);
}
TEST_F(CompiledMistakes, InWaitsForCopiesShow) {
  ExpectSeen("cp.async.wait_all;", "cp.async.wait_all;", ";", 1);
}
TEST_F(CompiledMistakes, InTurnsShow) {
  for (DType dtype : kTypesOfTurns) {
    Use(ShapeOfTurns(dtype));
    // A block does not pass its turn on: others wait for ever.
    ExpectSeen("red.release", "1;", "0;", 1);
    // A block goes on after one look, whosever turn it is.
    ExpectSeen("nanosleep", "setp.ne.s32", "setp.gt.s32", 1, "fence");
    // A block does not know that values were written before its turn came.
    ExpectSeen("fence.acq_rel.gpu;", "fence.acq_rel.gpu;", ";", 1, "\n");
    ExpectSeen("ld.relaxed", ".relaxed.gpu", "", 1);
    ExpectSeen("red.release", "release", "relaxed", 1);
  }
}
// The lanes that did not wait for their warp's turn read before the one that
// did is there.
TEST_F(CompiledMistakes, WhereLanesMeetBehindTurnsShow) {
  ExpectSeen("fence.acq_rel.gpu;", "bar.warp.sync -1;", ";", 1, "ld.global");
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
