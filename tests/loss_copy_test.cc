// Tests when the loss of a step comes to the host: between forward and
// backward, so that a thread that waits for it waits for nothing that backward
// copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/gate.h"
#include "device/host/host_device.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

constexpr int64_t kMicroBatches = 3;  // of each rank

TrainingCase OnSlowBus(int world_size, int64_t micro_batches) {
  TrainingCase c;
  c.model.n_layer = 2;
  c.model.n_head = 2;
  c.model.n_embd = 32;
  c.model.n_positions = 16;
  c.model.vocab_size = 97;
  c.options.shape = {
      .batch = 1, .length = 16, .micro_batches = micro_batches * world_size};
  c.options.memory.policy = FindPolicy("cpu");
  c.options.memory.chunk_bytes = 8192;
  c.options.bus_bytes_per_s = 2e8;
  c.options.optimizer.gradient_clipping = 1;
  c.world_size = world_size;
  c.steps = 4;
  return c;
}

// Keeps the work of each step.
class Recorder final : public RunObserver {
 public:
  void OnStep(const StepStart& start) override {
    if (start.step > 0) steps_[start.tag] = start.step;
  }
  void OnOperator(uint16_t, Moment, const BytesByCategory&, int64_t) override {}
  void OnWork(const WorkRecord& work, const NetworkRecord*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    works_[work.tag].push_back(work);
  }
  void OnWait(const WaitRecord&) override {}

  // Checks where the losses' copies lie among the operators of `trace`. Returns
  // how many steps were looked at.
  int64_t Check(const StepTrace& trace, bool several_ranks) const {
    for (const auto& [tag, step] : steps_) {
      SCOPED_TRACE(::testing::Message() << "step " << step);
      CheckStep(trace, works_.at(tag), several_ranks);
    }
    return static_cast<int64_t>(steps_.size());
  }

 private:
  static void CheckStep(const StepTrace& trace,
                        const std::vector<WorkRecord>& works,
                        bool several_ranks) {
    const auto on = [](const WorkRecord& work, StreamId stream) {
      return work.stream == static_cast<int64_t>(stream);
    };
    // On the compute stream, by count: the operators' phases, and the copies.
    std::map<int64_t, std::string> sequence;
    std::vector<int64_t> gathers, exchanges;
    int64_t last_forward = -1;
    for (size_t t = 0; t < trace.ops.size(); ++t) {
      if (trace.ops[t].phase == Phase::kForward) {
        last_forward = static_cast<int64_t>(t);
      }
    }
    for (const WorkRecord& work : works) {
      const int64_t t = work.moment.value;
      const bool loss = work.kind == WorkKind::kInput && t < 0;
      EXPECT_FALSE(loss && on(work, StreamId::kDeviceToHost));
      if (on(work, StreamId::kCompute) && loss) {
        sequence[work.count] = "loss";
      } else if (on(work, StreamId::kCompute) && t >= 0) {
        const Phase phase = trace.ops[t].phase;
        if (phase == Phase::kForward) sequence[work.count] = "forward";
        if (phase == Phase::kBackward) sequence[work.count] = "backward";
      } else if (on(work, StreamId::kNetwork) && loss) {
        gathers.push_back(work.count);
      } else if (on(work, StreamId::kNetwork) && t > last_forward) {
        exchanges.push_back(work.count);
      }
    }
    std::vector<std::string> order;
    for (const auto& [count, what] : sequence) {
      if (order.empty() || order.back() != what) order.push_back(what);
    }
    std::vector<std::string> expected;
    for (int64_t i = 0; i < kMicroBatches; ++i) {
      expected.insert(expected.end(), {"forward", "loss", "backward"});
    }
    EXPECT_EQ(order, expected);
    // Before all that the last backward exchanges.
    ASSERT_EQ(gathers.size(), several_ranks ? 1u : 0u);
    if (!several_ranks) return;
    ASSERT_FALSE(exchanges.empty());
    EXPECT_LT(gathers[0],
              *std::min_element(exchanges.begin(), exchanges.end()));
  }

  std::mutex mutex_;
  std::map<uint16_t, std::vector<WorkRecord>> works_;  // by tag
  std::map<uint16_t, int64_t> steps_;
};

TEST(LossCopy, LiesBetweenForwardAndBackwardOfEachMicroBatch) {
  for (const int world_size : {1, 2}) {
    SCOPED_TRACE(world_size);
    TrainingCase c = OnSlowBus(world_size, kMicroBatches);
    std::vector<Recorder> recorders(world_size);
    const auto rank_of = [](Trainer& trainer) {
      return trainer.communicator() == nullptr ? 0
                                               : trainer.communicator()->rank();
    };
    c.after_step = [&](Trainer& trainer, int64_t step) {
      if (step == 1) trainer.SetObserver(&recorders[rank_of(trainer)]);
      return absl::OkStatus();
    };
    const auto result = RunTraining(c, [&](Trainer& trainer) {
      trainer.SetObserver(nullptr);
      EXPECT_EQ(recorders[rank_of(trainer)].Check(*trainer.training_trace(),
                                                  world_size > 1),
                c.steps - 1);
      return absl::OkStatus();
    });
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->refusal.has_value());
  }
}

TEST(LossCopy, IsThereWhileNothingComesDownTheBus) {
  TrainingCase c = OnSlowBus(/*world_size=*/1, /*micro_batches=*/1);
  Device* device = nullptr;
  Gate gate;
  Fence held;
  c.options.open_device =
      [&](int64_t memory_bytes) -> absl::StatusOr<std::unique_ptr<Device>> {
    auto made = HostDevice::Create(
        {.memory_bytes = memory_bytes, .bus_bytes_per_s = 2e8});
    if (made.ok()) device = made->get();
    return made;
  };
  c.steps = 3;
  c.after_step = [&](Trainer& trainer, int64_t step) -> absl::Status {
    if (step == 1) {
      const absl::Status drained = trainer.Drain();
      if (!drained.ok()) return drained;
      held = device->Enqueue(StreamId::kDeviceToHost, 0, gate.Hold());
    } else if (step == 2) {
      // The step's loss is there, its gradients are not.
      EXPECT_FALSE(device->Reached(held));
      gate.Open();
    }
    return absl::OkStatus();
  };
  const auto result = RunTraining(c);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->losses.size(), 3u);
}

}  // namespace
}  // namespace castor::testing
