#include "runtime/autograd/engine.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/autograd/op.h"
#include "runtime/nn/modules.h"
#include "runtime/nn/zero_init.h"
#include "runtime/testing/eager_backend.h"

namespace castor {
namespace {

using testing::EagerBackend;

absl::Status Nothing(const Pointers&, const ExecContext&) {
  return absl::OkStatus();
}

// Parameters of 64 elements, so of 256 bytes of payload.
class EngineTest : public ::testing::Test {
 protected:
  Parameter& Add(const char* name) {
    return engine_.AddParameter(name, {64}, {});
  }
  // `chunk_bytes` 256: a chunk for each.
  void LayOut(int64_t chunk_bytes) {
    std::vector<LayoutParameter> parameters;
    for (const auto& parameter : engine_.parameters()) {
      parameters.push_back({.name = parameter->name,
                            .elements = parameter->elements(),
                            .trainable = parameter->trainable});
    }
    auto layout = MakeChunkLayout(parameters, {.chunk_bytes = chunk_bytes});
    ASSERT_TRUE(layout.ok()) << layout.status();
    layout_ = *layout;
    engine_.SetLayout(&layout_);
    backend_ = std::make_unique<EagerBackend>(&layout_);
    engine_.SetBackend(backend_.get());
  }
  ~EngineTest() override { engine_.SetBackend(nullptr); }

  void Begin(int64_t index = 0, int64_t count = 1) {
    engine_.BeginMicroBatch({.index = index,
                             .count = count,
                             .global_index = index,
                             .training = true});
  }
  absl::Status Read(const std::vector<Parameter*>& parameters) {
    Op op(engine_, "read");
    for (Parameter* parameter : parameters) op.Read(*parameter);
    return op.Run(Nothing);
  }
  // A contribution, all of whose elements are `value`.
  absl::Status Contribute(Parameter& parameter, float value) {
    Op op(engine_, "contribute " + parameter.name);
    const Op::GradientSlot slot = op.WriteGradient(parameter);
    return op.Run([=](const Pointers& p, const ExecContext&) {
      for (int i = 0; i < 64; ++i) {
        float& x = p.as<float>(slot.slot)[i];
        x = slot.accumulate ? x + value : value;
      }
      return absl::OkStatus();
    });
  }
  // The operators that the backend saw since the last call.
  std::vector<std::string> Ops() {
    const std::vector<std::string> all = backend_->ops();
    std::vector<std::string> fresh(all.begin() + seen_, all.end());
    seen_ = all.size();
    return fresh;
  }

  Engine engine_{DType::kFloat32, 1};
  ChunkLayout layout_;
  std::unique_ptr<EagerBackend> backend_;
  size_t seen_ = 0;
};

using Names = std::vector<std::string>;

TEST_F(EngineTest, StatesFollowAParameterThroughAStep) {
  Parameter& w = Add("w");
  EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kFree);
  LayOut(256);
  Begin();
  EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kHold);
  engine_.ExpectBackward(w, /*reads=*/true);
  engine_.ExpectBackward(w, /*reads=*/false);
  EXPECT_EQ(engine_.gradient_place(w).pending_reads(), 1);
  EXPECT_EQ(engine_.gradient_place(w).pending_gradients(), 2);
  {
    Op op(engine_, "forward");
    op.Read(w);
    ASSERT_TRUE(op.Run([&](const Pointers&, const ExecContext&) {
                    EXPECT_EQ(engine_.gradient_place(w).state(),
                              TensorState::kCompute);
                    return absl::OkStatus();
                  }).ok());
  }
  EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kHold);
  ASSERT_TRUE(engine_.DoneReading(w).ok());
  EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kHoldAfterBackward);
  ASSERT_TRUE(Contribute(w, 1).ok());
  EXPECT_TRUE(engine_.gradient_place(w).holds_gradient());
  EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kHoldAfterBackward);
  EXPECT_EQ(Ops(), (Names{"forward", "contribute w"}));
  ASSERT_TRUE(Contribute(w, 2).ok());
  EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kReadyForReduce);
  EXPECT_EQ(Ops(), (Names{"contribute w", "reduce/chunk 0"}));
  EXPECT_EQ(backend_->gradients(ChunkId(0)), std::vector<float>(64, 3));
  ASSERT_TRUE(engine_.EndMicroBatch().ok());
  ASSERT_TRUE(engine_.UpdateParameters().ok());
  EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kHold);
  EXPECT_FALSE(engine_.gradient_place(w).holds_gradient());
  EXPECT_EQ(Ops(), (Names{"update/chunk 0"}));
}

TEST_F(EngineTest, ContributionWaitsBesideValuesThatAreStillNeeded) {
  Parameter& w = Add("w");
  LayOut(256);
  backend_->SetValues(ChunkId(0), std::vector<float>(64, 7));
  Begin();
  for (int i = 0; i < 3; ++i) engine_.ExpectBackward(w, /*reads=*/true);
  for (float value : {1.0f, 2.0f}) {
    ASSERT_TRUE(engine_.DoneReading(w).ok());
    ASSERT_TRUE(Contribute(w, value).ok());
    EXPECT_TRUE(static_cast<bool>(engine_.gradient_place(w).early()));
    EXPECT_FALSE(engine_.gradient_place(w).holds_gradient());
    EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kHold);
    // The values are there for the next reader.
    Op op(engine_, "read");
    const int slot = op.Read(w);
    ASSERT_TRUE(op.Run([&](const Pointers& p, const ExecContext&) {
                    EXPECT_EQ(p.as<float>(slot)[63], 7);
                    return absl::OkStatus();
                  }).ok());
  }
  Ops();
  ASSERT_TRUE(engine_.DoneReading(w).ok());
  EXPECT_EQ(Ops(), (Names{"w/gradient_in_place"}));
  EXPECT_FALSE(static_cast<bool>(engine_.gradient_place(w).early()));
  EXPECT_TRUE(engine_.gradient_place(w).holds_gradient());
  EXPECT_EQ(engine_.gradient_place(w).pending_gradients(), 1);
  ASSERT_TRUE(Contribute(w, 4).ok());
  EXPECT_EQ(Ops(), (Names{"contribute w", "reduce/chunk 0"}));
  EXPECT_EQ(backend_->gradients(ChunkId(0)), std::vector<float>(64, 7));
  EXPECT_EQ(backend_->live_storages(), 0);
}

TEST_F(EngineTest, LastReaderMayOverwriteWhatItReads) {
  Parameter& w = Add("w");
  LayOut(256);
  Begin();
  engine_.ExpectBackward(w, /*reads=*/true);
  Op op(engine_, "fused");
  const int in = op.Read(w);
  const Op::GradientSlot out = op.ReadAndWriteGradient(w);
  EXPECT_FALSE(out.accumulate);
  ASSERT_TRUE(op.Run([&](const Pointers& p, const ExecContext&) {
                  EXPECT_EQ(p[in], p[out.slot]);
                  return absl::OkStatus();
                }).ok());
  EXPECT_EQ(engine_.gradient_place(w).pending_reads(), 0);
  EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kReadyForReduce);
  EXPECT_EQ(Ops(), (Names{"fused", "reduce/chunk 0"}));
}

TEST_F(EngineTest, ChunkIsReducedWithItsLastParameterWhateverTheOrder) {
  Parameter& a = Add("a");
  Parameter& b = Add("b");
  Parameter& c = Add("c");
  LayOut(512);  // {a, b}, {c}
  ASSERT_EQ(layout_.num_chunks(), 2);
  for (const std::vector<Parameter*>& order :
       {std::vector<Parameter*>{&a, &c, &b}, {&b, &a, &c}}) {
    Begin();
    for (Parameter* parameter : order) {
      engine_.ExpectBackward(*parameter, false);
    }
    Ops();
    Names expected;
    for (Parameter* parameter : order) {
      ASSERT_TRUE(Contribute(*parameter, 1).ok());
    }
    if (order[1] == &c) {
      expected = {"contribute a", "contribute c", "reduce/chunk 1",
                  "contribute b", "reduce/chunk 0"};
    } else {
      expected = {"contribute b", "contribute a", "reduce/chunk 0",
                  "contribute c", "reduce/chunk 1"};
    }
    EXPECT_EQ(Ops(), expected);
    ASSERT_TRUE(engine_.EndMicroBatch().ok());
    ASSERT_TRUE(engine_.UpdateParameters().ok());
  }
}

TEST_F(EngineTest, PlaceHoldsTheParameterAgainBetweenMicroBatches) {
  Parameter& w = Add("w");
  LayOut(256);
  for (int64_t i = 0; i < 2; ++i) {
    Begin(i, 2);
    EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kHold);
    engine_.ExpectBackward(w, false);
    ASSERT_TRUE(Contribute(w, 3).ok());
    EXPECT_EQ(engine_.gradient_place(w).state(),
              i == 0 ? TensorState::kHold : TensorState::kReadyForReduce);
    EXPECT_EQ(engine_.gradient_place(w).holds_gradient(), i == 1);
    ASSERT_TRUE(engine_.EndMicroBatch().ok());
  }
  ASSERT_TRUE(engine_.UpdateParameters().ok());
  EXPECT_EQ(backend_->gradients(ChunkId(0)), std::vector<float>(64, 6));
}

TEST_F(EngineTest, TokensWeighAlikeInAllMicroBatches) {
  Add("w");
  LayOut(256);
  engine_.SetLossGradient(/*loss_scale=*/1, {6});
  for (int64_t i = 0; i < 2; ++i) {
    Begin(i, 2);
    EXPECT_EQ(engine_.loss_gradient(), 1.0f / 6);
    engine_.AbandonMicroBatch();
  }
  engine_.SetLossGradient(0x1p16, {6});
  EXPECT_EQ(engine_.loss_gradient(), 65536.0f / 6);
  // Each term of a loss has labels of its own, or none.
  engine_.SetLossGradient(/*loss_scale=*/1, {6, 2, 0});
  EXPECT_EQ(engine_.loss_gradient(0), 1.0f / 6);
  EXPECT_EQ(engine_.loss_gradient(1), 0.5f);
  EXPECT_EQ(engine_.loss_gradient(2), 0);
}

TEST_F(EngineTest, UseThatIsTakenBackCompletesTheGradient) {
  Parameter& w = Add("w");
  LayOut(256);
  Begin();
  engine_.ExpectBackward(w, true);
  const Engine::ExpectedUses used = engine_.TakeAnnounced();
  EXPECT_EQ(used.reads.size(), 1u);
  EXPECT_EQ(used.gradients.size(), 1u);
  engine_.ExpectBackward(w, true);
  const Engine::ExpectedUses unused = engine_.TakeAnnounced();
  // The contribution comes early, since a read is still announced. When that
  // read is taken back, the gradient moves into place.
  ASSERT_TRUE(engine_.DoneReading(w).ok());
  ASSERT_TRUE(Contribute(w, 5).ok());
  ASSERT_TRUE(static_cast<bool>(engine_.gradient_place(w).early()));
  ASSERT_TRUE(engine_.TakeBack(unused).ok());
  EXPECT_EQ(Ops(),
            (Names{"contribute w", "w/gradient_in_place", "reduce/chunk 0"}));
  ASSERT_TRUE(engine_.EndMicroBatch().ok());
}

TEST_F(EngineTest, ContributionThatIsTakenBackCompletesTheGradient) {
  Parameter& w = Add("w");
  LayOut(256);
  Begin();
  engine_.ExpectBackward(w, false);
  engine_.TakeAnnounced();
  engine_.ExpectBackward(w, false);
  ASSERT_TRUE(Contribute(w, 5).ok());
  EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kHoldAfterBackward);
  ASSERT_TRUE(engine_.TakeBack(engine_.TakeAnnounced()).ok());
  EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kReadyForReduce);
  EXPECT_EQ(Ops(), (Names{"contribute w", "reduce/chunk 0"}));
}

TEST_F(EngineTest, UpdateOfWhatHoldsItsParameterAlreadyIsAnError) {
  Parameter& w = Add("w");
  LayOut(256);
  Begin();
  engine_.ExpectBackward(w, /*reads=*/false);
  ASSERT_TRUE(Contribute(w, 1).ok());
  ASSERT_TRUE(engine_.UpdateParameters().ok());
  EXPECT_EQ(engine_.gradient_place(w).state(), TensorState::kHold);
  const absl::Status again = engine_.UpdateParameters();
  EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
  EXPECT_NE(again.message().find("from HOLD to HOLD"), std::string::npos)
      << again;
}

TEST_F(EngineTest, ReadingAPlaceThatHoldsAGradientIsAnError) {
  Parameter& w = Add("w");
  LayOut(256);
  Begin();
  engine_.ExpectBackward(w, false);
  engine_.ExpectBackward(w, false);
  ASSERT_TRUE(Contribute(w, 1).ok());
  const absl::Status status = Read({&w});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("\"w\""), std::string::npos) << status;
}

TEST_F(EngineTest, ParameterWithoutGradientIsNamed) {
  Parameter& a = Add("a");
  Add("lonely");
  for (int64_t chunk_bytes : {256, 512}) {
    LayOut(chunk_bytes);
    Begin();
    engine_.ExpectBackward(a, false);
    ASSERT_TRUE(Contribute(a, 1).ok());
    const absl::Status status = engine_.EndMicroBatch();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(status.message().find("\"lonely\" takes no part"),
              std::string::npos)
        << status;
  }
}

TEST_F(EngineTest, FrozenParameterNeedsNoGradientAndIsNeverWritten) {
  Parameter& a = Add("a");
  Parameter& frozen = Add("frozen");
  frozen.trainable = false;
  LayOut(256);
  Begin();
  engine_.ExpectBackward(a, false);
  engine_.ExpectBackward(frozen, true);
  EXPECT_EQ(engine_.gradient_place(frozen).pending_gradients(), 0);
  ASSERT_TRUE(Contribute(a, 1).ok());
  Op op(engine_, "fused");
  op.Read(frozen);
  EXPECT_EQ(op.ReadAndWriteGradient(frozen).slot, -1);
  ASSERT_TRUE(op.Run(Nothing).ok());
  EXPECT_EQ(engine_.gradient_place(frozen).pending_reads(), 0);
  EXPECT_EQ(engine_.gradient_place(frozen).state(), TensorState::kHold);
  ASSERT_TRUE(engine_.EndMicroBatch().ok());
  ASSERT_TRUE(engine_.UpdateParameters().ok());
  EXPECT_EQ(Ops(), (Names{"contribute a", "reduce/chunk 0", "fused",
                          "update/chunk 0"}));
}

TEST_F(EngineTest, EvaluationAnnouncesNothing) {
  Parameter& w = Add("w");
  LayOut(256);
  engine_.BeginMicroBatch({});
  engine_.ExpectBackward(w, true);
  EXPECT_EQ(engine_.gradient_place(w).pending_reads(), 0);
  EXPECT_EQ(engine_.gradient_place(w).pending_gradients(), 0);
  EXPECT_TRUE(engine_.EndMicroBatch().ok());
}

TEST_F(EngineTest, RemembersTheOrderOfFirstUse) {
  Parameter& a = Add("a");
  Parameter& b = Add("b");
  LayOut(256);
  Begin();
  ASSERT_TRUE(Read({&b}).ok());
  ASSERT_TRUE(Read({&a, &b}).ok());
  EXPECT_EQ(engine_.first_use_order(), (std::vector<ParamId>{b.id, a.id}));
}

TEST_F(EngineTest, BackendSeesEachChunkOnceInAscendingOrder) {
  class Recorder final : public Backend {
   public:
    absl::StatusOr<absl::InlinedVector<int64_t, 4>> Run(BackendOp op) override {
      chunks = op.chunks;
      return absl::InlinedVector<int64_t, 4>(op.outputs.size(), 0);
    }
    absl::StatusOr<int64_t> Upload(std::string, HostData) override { return 0; }
    absl::StatusOr<int64_t> Hold(std::string, int64_t) override { return 0; }
    absl::Status Reduce(ChunkReduce) override { return absl::OkStatus(); }
    absl::Status Update(ChunkUpdate) override { return absl::OkStatus(); }
    void Release(int64_t) override {}
    absl::InlinedVector<ChunkUse, 4> chunks;
  } recorder;
  Parameter& a = Add("a");
  Parameter& b = Add("b");
  Parameter& c = Add("c");
  LayOut(512);
  engine_.SetBackend(&recorder);
  Begin();
  engine_.ExpectBackward(b, false);
  Op op(engine_, "op");
  op.Read(c);
  op.WriteGradient(b);
  op.Read(a);
  ASSERT_TRUE(op.Run(Nothing).ok());
  ASSERT_EQ(recorder.chunks.size(), 2u);
  EXPECT_EQ(recorder.chunks[0], (ChunkUse{ChunkId(0), true}));
  EXPECT_EQ(recorder.chunks[1], (ChunkUse{ChunkId(1), false}));
}

TEST_F(EngineTest, NameGivenTwiceAndEmptyShapeAreMistakesOfConstruction) {
  Add("w");
  EXPECT_TRUE(engine_.construction_status().ok());
  Add("w");
  EXPECT_TRUE(absl::IsInvalidArgument(engine_.construction_status()));
  EXPECT_NE(engine_.construction_status().message().find("named \"w\""),
            std::string::npos);
  Engine other(DType::kFloat32, 1);
  other.AddParameter("empty", {3, 0}, {});
  EXPECT_NE(other.construction_status().message().find("\"empty\" has no"),
            std::string::npos);
}

TEST_F(EngineTest, DropoutKeysDifferBySiteMicroBatchAndSeed) {
  Begin(0, 2);
  const RandomKey key = engine_.DropoutKey("a");
  EXPECT_EQ(engine_.DropoutKey("a").stream, key.stream);
  EXPECT_NE(engine_.DropoutKey("b").stream, key.stream);
  Begin(1, 2);
  EXPECT_NE(engine_.DropoutKey("a").stream, key.stream);
  EXPECT_NE(Engine(DType::kFloat32, 2).DropoutKey("a").seed, key.seed);
}

TEST(ZeroInitScope, InnermostCountsAndEndsWithItsBlock) {
  Engine outer(DType::kFloat32, 1), inner(DType::kFloat32, 1);
  EXPECT_EQ(ZeroInit::current(), nullptr);
  {
    ZeroInit first(outer);
    MakeParameter("a", {1}, {});
    {
      ZeroInit second(inner);
      MakeParameter("b", {1}, {});
    }
    MakeParameter("c", {1}, {});
  }
  EXPECT_EQ(ZeroInit::current(), nullptr);
  EXPECT_EQ(outer.parameters().size(), 2u);
  EXPECT_EQ(inner.parameters().size(), 1u);
}

using ZeroInitDeathTest = ::testing::Test;

TEST(ZeroInitDeathTest, ModuleOutsideOfAScopeStopsTheProgramAndSaysWhy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(nn::Linear("fc", 2, 2), "inside a castor::ZeroInit scope");
}

}  // namespace
}  // namespace castor
