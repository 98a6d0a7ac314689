#include "runtime/backend/dry_backend.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/head_loss/head_loss.h"
#include "runtime/nn/model.h"
#include "runtime/nn/modules.h"
#include "runtime/nn/zero_init.h"
#include "runtime/ops/head_loss.h"
#include "runtime/train/micro_batch.h"

namespace castor {
namespace {

constexpr int64_t kUnit = 256;  // kBlockAlignment

// 1 flop and 1 byte a nanosecond.
const Roofline kSlow = {.flops_per_s = 1e9, .bytes_per_s = 1e9};

BackendOp OpOf(std::string name, std::vector<int64_t> output_bytes,
               int64_t workspace_bytes) {
  BackendOp op;
  op.name = std::move(name);
  for (int64_t bytes : output_bytes) op.outputs.push_back({.bytes = bytes});
  op.workspace_bytes = workspace_bytes;
  return op;
}

StepTrace Finish(DryBackend& backend) {
  return backend.Finish(nullptr, false, true, 1);
}

TEST(DryBackend, CountsWhatIsAliveWithOutputsAndWorkspaceInWholeUnits) {
  DryBackend backend;
  const auto input = backend.Upload("input", std::vector<int32_t>(65));  // 2
  ASSERT_TRUE(input.ok());
  const auto first = backend.Run(OpOf("first", {1, 256}, 257));  // 2, and 2
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(first->size(), 2u);
  backend.Release(*input);
  backend.Release((*first)[0]);
  const auto second = backend.Run(OpOf("second", {0, 300}, 0));  // 1, 2
  ASSERT_TRUE(second.ok());
  backend.Release((*first)[1]);
  ASSERT_TRUE(backend.Run(OpOf("third", {}, 1)).ok());
  const StepTrace trace = Finish(backend);
  ASSERT_EQ(trace.ops.size(), 4u);
  EXPECT_EQ(trace.ops[0].non_model_peak_bytes, 2 * kUnit);
  EXPECT_EQ(trace.ops[1].non_model_peak_bytes, (2 + 2 + 2) * kUnit);
  EXPECT_EQ(trace.ops[1].workspace_bytes, 2 * kUnit);
  EXPECT_EQ(trace.ops[2].non_model_peak_bytes, (1 + 1 + 2) * kUnit);
  EXPECT_EQ(trace.ops[2].workspace_bytes, 0);
  EXPECT_EQ(trace.ops[3].non_model_peak_bytes, (1 + 2 + 1) * kUnit);
}

TEST(DryBackend, RecordsWhenTensorsAreMadeAndFreed) {
  DryBackend backend;
  const auto input = backend.Upload("input", std::vector<int32_t>(65));
  ASSERT_TRUE(input.ok());
  const auto first = backend.Run(OpOf("first", {1, 256}, 257));
  ASSERT_TRUE(first.ok());
  backend.Release((*first)[1]);
  ASSERT_TRUE(backend.Run(OpOf("second", {}, 0)).ok());
  backend.Release(*input);
  backend.Release((*first)[0]);
  EXPECT_EQ(Finish(backend).tensors,
            (std::vector<TensorRecord>{{2 * kUnit, Moment(0), Moment(2)},
                                       {kUnit, Moment(1), Moment(2)},
                                       {kUnit, Moment(1), Moment(1)}}));
}

TEST(DryBackend, RecordsWhichBlockKeepsATensorForItsBackwardAlone) {
  DryBackend backend;
  ASSERT_TRUE(backend.AtBlock(5, BlockPoint::kKept, -1).ok());
  const auto made = backend.Run(OpOf("block", {1, 256, 1, 1}, 0));
  ASSERT_TRUE(made.ok());
  backend.Release((*made)[2]);
  ASSERT_TRUE(backend.AtBlock(5, BlockPoint::kKeptEnd, (*made)[0]).ok());
  const auto other = backend.Run(OpOf("other", {1}, 0));
  ASSERT_TRUE(other.ok());
  for (const int64_t i : {0, 1, 3}) backend.Release((*made)[i]);
  backend.Release((*other)[0]);
  std::vector<int64_t> blocks;
  for (const TensorRecord& tensor : Finish(backend).tensors) {
    blocks.push_back(tensor.block);
  }
  // Its output, two that it keeps, one that it has freed, and another.
  EXPECT_EQ(blocks, (std::vector<int64_t>{-1, 5, -1, 5, -1}));
}

TEST(DryBackend, RecordsNoTensorsWhereSomeOutliveTheStep) {
  DryBackend unreleased;
  ASSERT_TRUE(unreleased.Run(OpOf("op", {1}, 0)).ok());
  EXPECT_TRUE(Finish(unreleased).tensors.empty());
  DryBackend holds;
  ASSERT_TRUE(holds.Hold("cache", 1).ok());
  const auto made = holds.Run(OpOf("op", {1}, 0));
  ASSERT_TRUE(made.ok());
  holds.Release((*made)[0]);
  EXPECT_TRUE(Finish(holds).tensors.empty());
}

TEST(DryBackend, OperatorTakesTheLongerOfFlopsAndBytesAndALaunch) {
  EXPECT_EQ(kSlow.Duration(CostKind::kElements, 5000, 100), 2000 + 5000);
  EXPECT_EQ(kSlow.Duration(CostKind::kElements, 100, 3000), 2000 + 3000);
  DryBackend backend(kSlow);
  BackendOp op = OpOf("op", {}, 0);
  op.flops = 700;
  op.bytes = 900;
  ASSERT_TRUE(backend.Run(std::move(op)).ok());
  const StepTrace trace = Finish(backend);
  EXPECT_EQ(trace.ops[0].duration_ns, 2900);
  EXPECT_EQ(trace.ops[0].flops, 700);
}

TEST(DryBackend, ChunkOperatorsCostTheBytesOfPayloadAndStates) {
  auto layout =
      MakeChunkLayout({{.name = "w", .elements = 64}},
                      {.states = {.slots = {{.name = "m"}, {.name = "v"}}}});
  ASSERT_TRUE(layout.ok());
  DryBackend backend(kSlow);
  ASSERT_TRUE(backend.Reduce({ChunkId(0), "reduce", 0}).ok());
  ASSERT_TRUE(backend.Update({ChunkId(0), "update"}).ok());
  const StepTrace trace =
      backend.Finish(&*layout, /*accumulate=*/true, true, 2);
  ASSERT_EQ(trace.chunks.size(), 1u);
  EXPECT_EQ(trace.chunks[0].payload_bytes, 256);
  EXPECT_EQ(trace.chunks[0].optimizer_bytes, 64 * 16);
  EXPECT_EQ(trace.chunks[0].parameters, (std::vector<std::string>{"w"}));
  EXPECT_EQ(trace.ops[0].kind, OpKind::kReduce);
  EXPECT_EQ(trace.ops[0].duration_ns, 2000 + 256);
  EXPECT_EQ(trace.ops[1].kind, OpKind::kUpdate);
  EXPECT_EQ(trace.ops[1].phase, Phase::kOptimizer);
  EXPECT_EQ(trace.ops[1].host_duration_ns, 2000 + 2 * (256 + 1024));
  EXPECT_FALSE(trace.measured);
}

TEST(DryBackend, SignatureTellsNamesSizesAndPassesApart) {
  auto signature = [](std::string name, int64_t bytes, bool training,
                      double flops) {
    DryBackend backend;
    BackendOp op = OpOf(std::move(name), {bytes}, 0);
    op.flops = flops;
    EXPECT_TRUE(backend.Run(std::move(op)).ok());
    return backend.Finish(nullptr, false, training, 1).signature;
  };
  const std::string one = signature("a", 256, true, 0);
  EXPECT_EQ(signature("a", 256, true, 1e9), one);  // durations do not count
  EXPECT_EQ(signature("a", 255, true, 0), one);    // the same unit
  EXPECT_NE(signature("b", 256, true, 0), one);
  EXPECT_NE(signature("a", 257, true, 0), one);
  EXPECT_NE(signature("a", 256, false, 0), one);
}

class TinyModel final : public Model {
 public:
  TinyModel() : wte_("wte", 8, 8), head_("head", 8, 8) {}
  absl::StatusOr<Tensor> Loss(Engine& engine, const Tensor& tokens,
                              const Tensor& targets) override {
    CASTOR_ASSIGN_OR_RETURN(const Tensor x, wte_(engine, tokens));
    return ops::HeadLoss(engine, x, head_.weight(), targets);
  }

 private:
  nn::Embedding wte_, head_;
};

TEST(DryRun, PeaksOfAStepAreThoseComputedByHand) {
  Engine engine(DType::kFloat32, 1);
  ZeroInit scope(engine);
  TinyModel model;
  const kernels::HeadLossShape shape = {
      .rows = 4, .channels = 8, .vocabulary = 8, .dtype = DType::kFloat32};
  const int64_t forward = RoundUp(
      kernels::HeadLossForwardArgs{.shape = shape}.CpuWorkspaceBytes(), kUnit);
  const int64_t backward = RoundUp(
      kernels::HeadLossBackwardArgs{.shape = shape}.CpuWorkspaceBytes(), kUnit);
  auto trace = DryRun(engine, model, {.batch = 1, .length = 4}, nullptr,
                      /*accumulate=*/false, {});
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(engine.backend(), nullptr);
  // Everything is less than a unit: tokens, targets, x, loss, lse, dx.
  std::vector<std::pair<std::string, int64_t>> ops;
  for (const OpRecord& op : trace->ops) {
    ops.push_back({op.name, op.non_model_peak_bytes});
  }
  const std::vector<std::pair<std::string, int64_t>> expected = {
      {"input/tokens", 1 * kUnit},
      {"input/targets", 2 * kUnit},
      {"wte.weight/forward", 3 * kUnit},
      {"head.weight/head_forward", 5 * kUnit + forward},
      // The gradient of the head takes over the head's place.
      {"head.weight/head_backward", 6 * kUnit + backward},
      // Storage that head_backward alone kept is gone; left are tokens, loss,
      // dx.
      {"wte.weight/backward", 3 * kUnit},
  };
  EXPECT_EQ(ops, expected);
  EXPECT_EQ(engine.first_use_order(),
            (std::vector<ParamId>{ParamId(0), ParamId(1)}));
}

}  // namespace
}  // namespace castor
