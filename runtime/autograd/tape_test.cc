#include "runtime/autograd/tape.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "runtime/autograd/op.h"
#include "runtime/testing/eager_backend.h"

namespace castor {
namespace {

using testing::EagerBackend;

class TapeTest : public ::testing::Test {
 protected:
  TapeTest() {
    auto layout = MakeChunkLayout({{.name = "w", .elements = 64}}, {});
    EXPECT_TRUE(layout.ok());
    layout_ = *layout;
    backend_ = std::make_unique<EagerBackend>(&layout_);
    engine_.SetBackend(backend_.get());
    engine_.BeginMicroBatch({.training = true});
  }
  ~TapeTest() override { engine_.SetBackend(nullptr); }

  // A tensor [4] of `value`, wanting a gradient.
  Tensor Make(float value) {
    Op op(engine_, "make");
    const int out = op.Output({4}, DType::kFloat32);
    EXPECT_TRUE(op.Run([=](const Pointers& p, const ExecContext&) {
                    for (int i = 0; i < 4; ++i) p.as<float>(out)[i] = value;
                    return absl::OkStatus();
                  }).ok());
    Tensor tensor = op.output(out);
    tensor.set_requires_grad(true);
    return tensor;
  }
  std::vector<float> Values(const Tensor& tensor) {
    const float* data =
        static_cast<const float*>(backend_->data(tensor.storage_id()));
    return {data, data + 4};
  }
  // A node that hands what it gets to `input` and notes its name.
  Tape::Backward Pass(std::string name, int64_t input) {
    return [this, name, input](Tensor dy, GradientSink& sink) -> absl::Status {
      ran_.push_back(name);
      if (!dy) dy = Make(1);
      return sink.Add(engine_, input, std::move(dy));
    };
  }

  Engine engine_{DType::kFloat32, 1};
  ChunkLayout layout_;
  std::unique_ptr<EagerBackend> backend_;
  std::vector<std::string> ran_;
};

TEST_F(TapeTest, SinkSumsInATensorThatNobodyElseHolds) {
  GradientSink sink;
  const Tensor kept = Make(1);
  ASSERT_TRUE(sink.Add(engine_, 7, kept).ok());
  ASSERT_TRUE(sink.Add(engine_, 7, Make(2)).ok());  // into the second
  ASSERT_TRUE(sink.Add(engine_, 7, Make(4)).ok());
  const Tensor sum = sink.Take(7);
  EXPECT_EQ(Values(sum), std::vector<float>(4, 7));
  EXPECT_EQ(Values(kept), std::vector<float>(4, 1));
  EXPECT_FALSE(static_cast<bool>(sink.Take(7)));
}

TEST_F(TapeTest, SinkSumsTensorsThatAreAllHeldIntoANewOne) {
  GradientSink sink;
  const Tensor kept = Make(3);
  ASSERT_TRUE(sink.Add(engine_, 7, kept).ok());
  ASSERT_TRUE(sink.Add(engine_, 7, kept).ok());
  EXPECT_EQ(Values(sink.Take(7)), std::vector<float>(4, 6));
  EXPECT_EQ(Values(kept), std::vector<float>(4, 3));
}

// Returns true if the refusal names both shapes.
bool Refuses(const absl::Status& status) {
  return absl::IsInvalidArgument(status) &&
         status.message().find("[4]") != absl::string_view::npos &&
         status.message().find("[2]") != absl::string_view::npos;
}

TEST_F(TapeTest, SinkRefusesAGradientOfAnotherSize) {
  GradientSink sink;
  ASSERT_TRUE(sink.Add(engine_, 7, Make(1)).ok());
  const auto other = engine_.Upload("other", {2}, std::vector<int32_t>{0, 0});
  ASSERT_TRUE(other.ok());
  const absl::Status status = sink.Add(engine_, 7, *other);
  EXPECT_TRUE(Refuses(status)) << status;
}

TEST_F(TapeTest, NodeOfAnotherSizeThanItsGradientEndsTheWalk) {
  Tape tape(&engine_);
  const Tensor leaf = Make(0), middle = Make(0), loss = Make(0);
  tape.Record(middle, Pass("middle", leaf.id()));
  tape.Record(loss, [&, this](Tensor, GradientSink& sink) -> absl::Status {
    CASTOR_ASSIGN_OR_RETURN(
        const Tensor other,
        engine_.Upload("other", {2}, std::vector<int32_t>{0, 0}));
    return sink.Add(engine_, middle.id(), other);
  });
  GradientSink sink;
  const absl::Status status = tape.RunBackward({loss.id()}, sink);
  EXPECT_TRUE(Refuses(status)) << status;
  EXPECT_TRUE(ran_.empty());
}

TEST_F(TapeTest, NodesRunLastFirstAndGradientsReachTheLeaves) {
  Tape tape(&engine_);
  const Tensor leaf = Make(0), middle = Make(0), loss = Make(0);
  tape.Record(middle, Pass("middle", leaf.id()));
  tape.Record(loss, Pass("loss", middle.id()));
  GradientSink sink;
  ASSERT_TRUE(tape.RunBackward({loss.id()}, sink).ok());
  EXPECT_EQ(ran_, (std::vector<std::string>{"loss", "middle"}));
  EXPECT_EQ(Values(sink.Take(leaf.id())), std::vector<float>(4, 1));
  EXPECT_FALSE(static_cast<bool>(sink.Take(middle.id())));
}

TEST_F(TapeTest, StartsFromAGivenGradient) {
  Tape tape(&engine_);
  const Tensor leaf = Make(0), output = Make(0);
  tape.Record(output, Pass("output", leaf.id()));
  GradientSink sink;
  ASSERT_TRUE(tape.RunBackward(output.id(), Make(5), sink).ok());
  EXPECT_EQ(Values(sink.Take(leaf.id())), std::vector<float>(4, 5));
}

TEST_F(TapeTest, NodeWithoutGradientIsSkippedAndItsUsesTakenBack) {
  Parameter& w = engine_.AddParameter("w", {64}, {});
  engine_.SetLayout(&layout_);
  engine_.BeginMicroBatch({.training = true});
  Tape tape(&engine_);
  const Tensor leaf = Make(0), unused = Make(0), loss = Make(0);
  engine_.ExpectBackward(w, /*reads=*/true);
  tape.Record(unused, Pass("unused", leaf.id()));
  tape.Record(loss, Pass("loss", leaf.id()));
  GradientSink sink;
  ASSERT_TRUE(tape.RunBackward({loss.id()}, sink).ok());
  EXPECT_EQ(ran_, (std::vector<std::string>{"loss"}));
  EXPECT_EQ(engine_.gradient_place(w).pending_reads(), 0);
  EXPECT_EQ(engine_.gradient_place(w).pending_gradients(), 0);
}

TEST_F(TapeTest, NodesLetGoOfWhatTheySavedAsSoonAsTheyHaveRun) {
  Tape tape(&engine_);
  const Tensor leaf = Make(0);
  Tensor first = Make(0), second = Make(0);
  const int64_t first_id = first.id(), second_id = second.id();
  const int64_t alive = backend_->live_storages();
  tape.Record(first, [&, first](Tensor, GradientSink&) {
    // `second` was saved by the node that ran before.
    EXPECT_EQ(backend_->live_storages(), alive);
    return absl::OkStatus();
  });
  tape.Record(second, [this, second, first_id](Tensor, GradientSink& sink) {
    return sink.Add(engine_, first_id, Make(1));
  });
  first = Tensor();
  second = Tensor();
  EXPECT_EQ(backend_->live_storages(), alive);
  GradientSink sink;
  ASSERT_TRUE(tape.RunBackward({second_id}, sink).ok());
  EXPECT_EQ(backend_->live_storages(), alive - 2);
}

TEST_F(TapeTest, FailureOfANodeEndsTheWalk) {
  Tape tape(&engine_);
  const Tensor leaf = Make(0), middle = Make(0), loss = Make(0);
  tape.Record(middle, Pass("middle", leaf.id()));
  tape.Record(loss,
              [](Tensor, GradientSink&) { return absl::InternalError("no"); });
  GradientSink sink;
  EXPECT_TRUE(absl::IsInternal(tape.RunBackward({loss.id()}, sink)));
  EXPECT_TRUE(ran_.empty());
}

TEST_F(TapeTest, CheckpointKeepsTheInputAloneAndRunsTheBlockTwice) {
  Tape tape(&engine_);
  engine_.BeginMicroBatch({.training = true, .tape = &tape});
  engine_.set_kept_blocks(std::vector<bool>{});
  std::vector<GradMode> modes;
  Tensor input = Make(2);
  const int64_t input_id = input.id();
  // Saves a tensor of its own where it is recorded.
  Block block = [&](const Tensor& in) -> absl::StatusOr<Tensor> {
    modes.push_back(engine_.grad_mode());
    const Tensor saved = Make(0);
    Tensor out = Make(0);
    if (engine_.grad_mode() == GradMode::kRecord) {
      engine_.tape()->Record(
          out, [this, saved, id = in.id()](Tensor dy, GradientSink& sink) {
            return sink.Add(engine_, id, std::move(dy));
          });
    }
    return out;
  };
  auto output = Checkpoint(engine_, input, block);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(backend_->live_storages(), 2);  // input and output
  EXPECT_EQ(engine_.grad_mode(), GradMode::kRecord);
  GradientSink sink;
  ASSERT_TRUE(tape.RunBackward(output->id(), Make(9), sink).ok());
  EXPECT_EQ(modes,
            (std::vector<GradMode>{GradMode::kCheckpoint, GradMode::kRecord}));
  EXPECT_EQ(Values(sink.Take(input_id)), std::vector<float>(4, 9));
  EXPECT_EQ(engine_.tape(), &tape);
}

// Blocks are numbered as they run, those within others left out.
TEST_F(TapeTest, CheckpointKeepsTheBlocksThatItIsToldToKeep) {
  for (const bool nested : {false, true}) {
    Tape tape(&engine_);
    engine_.BeginMicroBatch({.training = true, .tape = &tape});
    engine_.set_kept_blocks(std::vector<bool>{false, true});
    std::vector<std::string> runs;
    const auto pass = [&](std::string name, const Tensor& in) {
      runs.push_back(name);
      const Tensor out = Make(0);
      if (engine_.grad_mode() == GradMode::kRecord) {
        engine_.tape()->Record(out, Pass(name + "'", in.id()));
      }
      return out;
    };
    Tensor x = Make(2);
    const int64_t input_id = x.id();
    for (const char* name : {"a", "b", "c"}) {
      auto y = Checkpoint(
          engine_, x, [&, name](const Tensor& in) -> absl::StatusOr<Tensor> {
            const Tensor out = pass(name, in);
            if (!nested) return out;
            return Checkpoint(
                engine_, out,
                [&](const Tensor& inner) -> absl::StatusOr<Tensor> {
                  return pass("inner", inner);
                });
          });
      ASSERT_TRUE(y.ok());
      x = *y;
    }
    ran_.clear();
    GradientSink sink;
    ASSERT_TRUE(tape.RunBackward(x.id(), Make(9), sink).ok());
    EXPECT_EQ(Values(sink.Take(input_id)), std::vector<float>(4, 9));
    if (nested) {
      EXPECT_EQ(runs, (std::vector<std::string>{"a", "inner", "b", "inner", "c",
                                                "inner",  // forward
                                                "c", "inner", "a", "inner"}));
    } else {
      EXPECT_EQ(runs, (std::vector<std::string>{"a", "b", "c", "c", "a"}));
      EXPECT_EQ(ran_, (std::vector<std::string>{"c'", "b'", "a'"}));
    }
  }
}

// g + (a + b), where g is the gradient of another reader and a and b are the
// block's: sums of floats depend on their order.
TEST_F(TapeTest, GradientsOfABlocksInputAreSummedAlikeKeptOrMadeAgain) {
  for (const bool kept : {false, true}) {
    Tape tape(&engine_);
    engine_.BeginMicroBatch({.training = true, .tape = &tape});
    engine_.set_kept_blocks(std::vector<bool>{kept});
    const Tensor input = Make(2);
    // The tensors to which a node gives gradients, with these.
    using Given = std::vector<std::pair<int64_t, float>>;
    const auto gives = [&](const Tensor& out, const Given& given) {
      if (engine_.grad_mode() != GradMode::kRecord) return;
      engine_.tape()->Record(
          out, [this, given](Tensor, GradientSink& sink) -> absl::Status {
            for (const auto& [id, value] : given) {
              CASTOR_RETURN_IF_ERROR(sink.Add(engine_, id, Make(value)));
            }
            return absl::OkStatus();
          });
    };
    auto output = Checkpoint(
        engine_, input, [&](const Tensor& in) -> absl::StatusOr<Tensor> {
          const Tensor out = Make(0);
          gives(out, {{in.id(), 0x1p24f}, {in.id(), -0x1p24f}});
          return out;
        });
    ASSERT_TRUE(output.ok());
    const Tensor loss = Make(0);
    gives(loss, {{input.id(), 1}, {output->id(), 1}});
    GradientSink sink;
    ASSERT_TRUE(tape.RunBackward(loss.id(), Make(1), sink).ok());
    EXPECT_EQ(Values(sink.Take(input.id())), std::vector<float>(4, 1)) << kept;
  }
}

TEST_F(TapeTest, CheckpointSimplyRunsTheBlockOutsideOfTraining) {
  const Tensor input = Make(2);
  std::vector<GradMode> modes;
  Block block = [&](const Tensor& in) -> absl::StatusOr<Tensor> {
    modes.push_back(engine_.grad_mode());
    return in;
  };
  engine_.set_kept_blocks(std::vector<bool>{});
  engine_.BeginMicroBatch({});
  ASSERT_TRUE(Checkpoint(engine_, input, block).ok());
  EXPECT_EQ(modes, (std::vector<GradMode>{GradMode::kOff}));
}

TEST_F(TapeTest, CheckpointHandsOnTheBlocksError) {
  engine_.set_kept_blocks(std::vector<bool>{});
  const Tensor input = Make(2);
  auto failed =
      Checkpoint(engine_, input, [](const Tensor&) -> absl::StatusOr<Tensor> {
        return absl::InternalError("block");
      });
  EXPECT_TRUE(absl::IsInternal(failed.status()));
  EXPECT_EQ(engine_.grad_mode(), GradMode::kRecord);
}

}  // namespace
}  // namespace castor
