#include "run/optim/chunk_optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "device/device.h"
#include "run/optim/chunk_optimizer_rig.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

void ExpectNear(const std::vector<float>& ours,
                const std::vector<double>& theirs, const char* what) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    // A step makes some ten roundings of 2^-24.
    EXPECT_NEAR(ours[i], theirs[i],
                kSteps * 10 * 0x1p-24 * std::max(1.0, std::fabs(theirs[i])))
        << what << i;
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int64_t micro_batches : {1, 3}) {
    for (double clipping : {0.0, 0.5, 1e6}) {
      for (bool decoupled : {true, false}) {
        cases.push_back({.micro_batches = micro_batches,
                         .clipping = clipping,
                         .decoupled = decoupled});
      }
      cases.push_back({.micro_batches = micro_batches,
                       .clipping = clipping,
                       .bias_correction = false});
      for (double max_coeff : {10.0, 0.3}) {
        cases.push_back({.micro_batches = micro_batches,
                         .clipping = clipping,
                         .bias_correction = max_coeff > 1,
                         .kind = RuleKind::kLamb,
                         .max_coeff = max_coeff});
      }
      if (clipping > 1) continue;
      cases.push_back({.micro_batches = micro_batches,
                       .clipping = clipping,
                       .kind = RuleKind::kLion});
      cases.push_back({.micro_batches = micro_batches,
                       .clipping = clipping,
                       .kind = RuleKind::kAdafactor});
      for (const auto& [momentum, nesterov] :
           {std::pair(0.0, false), {0.9, false}, {0.9, true}}) {
        if (micro_batches > 1 && momentum == 0) continue;
        cases.push_back({.micro_batches = micro_batches,
                         .clipping = clipping,
                         .kind = RuleKind::kSgd,
                         .momentum = momentum,
                         .nesterov = nesterov});
      }
    }
  }
  return cases;
}

TEST(ChunkOptimizer, FollowsTheFormulasInDouble) {
  for (const Case& c : Cases()) {
    Rig rig(c);
    Oracle oracle(c);
    for (int step = 1; step <= kSteps; ++step) {
      ASSERT_TRUE(rig.Step(step).ok());
      oracle.Step(step);
      if (c.clipping > 0) {
        // Sums of micro batches are rounded to fp32 before they are squared.
        EXPECT_NEAR(rig.norm(), oracle.norm, oracle.norm * 0x1p-23);
      } else {
        EXPECT_EQ(rig.norm(), 0);
      }
    }
    const std::vector<double>* const expected[] = {&oracle.x, &oracle.m,
                                                   &oracle.v};
    const auto values = rig.AllValues();
    for (size_t i = 0; i < values.size(); ++i) {
      ExpectNear(values[i], *expected[i], i == 0 ? "master " : "slot ");
    }
    EXPECT_EQ(rig.Payload(), values[0]);
  }
}

TEST(ChunkOptimizer, SideAndChunkSizeDoNotChangeABit) {
  const Side kH = Side::kHost, kD = Side::kDevice;
  for (Case c : Cases()) {
    Rig reference(c);
    std::vector<double> norms;
    for (int step = 1; step <= kSteps; ++step) {
      ASSERT_TRUE(reference.Step(step).ok());
      norms.push_back(reference.norm());
    }
    for (int64_t chunk_bytes : {256, 1024, 4096}) {
      for (const std::vector<Side>& sides :
           {std::vector<Side>{kH}, {kD}, {kH, kD}, {kD, kH}}) {
        c.chunk_bytes = chunk_bytes;
        c.sides = sides;
        if (chunk_bytes == 4096 && sides.size() > 1) continue;  // one chunk
        for (const bool device_sums : {false, true}) {
          if (device_sums && c.micro_batches == 1) continue;
          c.device_sums = device_sums;
          Rig rig(c);
          for (int step = 1; step <= kSteps; ++step) {
            ASSERT_TRUE(rig.Step(step).ok());
            EXPECT_EQ(rig.norm(), norms[step - 1]);
          }
          EXPECT_EQ(rig.AllValues(), reference.AllValues());
          EXPECT_EQ(rig.Payload(), reference.Payload());
        }
      }
    }
  }
}

// An update ahead of the norm gives the bits of one after it, whatever the norm
// says, and wherever the other updates are.
TEST(ChunkOptimizer, UpdatesAheadChangeNoBit) {
  const Side kH = Side::kHost, kD = Side::kDevice;
  const float inf = std::numeric_limits<float>::infinity();
  int64_t committed = 0, repeated = 0;
  for (Case c : Cases()) {
    for (const double loss_scale : {0.0, 8.0}) {
      c.loss_scale = loss_scale;
      c.sides = {kH, kH};
      c.ahead.clear();
      const Poison kPoisons[] = {
          {}, {.value = loss_scale > 0 ? inf : 0, .begin = 70, .end = 110}, {}};
      Rig reference(c);
      std::vector<double> norms;
      for (int step = 1; step <= kSteps; ++step) {
        ASSERT_TRUE(reference.Step(step, kPoisons[step - 1]).ok());
        norms.push_back(reference.norm());
      }
      EXPECT_EQ(reference.optimizer().speculation(), SpeculationCounts());
      for (const std::vector<Side>& sides :
           {std::vector<Side>{kH, kH}, {kH, kD}, {kD, kH}}) {
        for (const std::vector<int64_t>& ahead :
             {std::vector<int64_t>{0, 1}, {0}, {1}}) {
          for (const bool device_sums : {false, true}) {
            if (device_sums && c.micro_batches == 1) continue;
            c.sides = sides;
            c.ahead = ahead;
            c.device_sums = device_sums;
            Rig rig(c);
            for (int step = 1; step <= kSteps; ++step) {
              const absl::Status status = rig.Step(step, kPoisons[step - 1]);
              ASSERT_TRUE(status.ok()) << status;
              EXPECT_EQ(rig.norm(), norms[step - 1]);
              EXPECT_TRUE(rig.store().CheckConsistency().ok());
            }
            EXPECT_EQ(rig.AllValues(), reference.AllValues());
            EXPECT_EQ(rig.Payload(), reference.Payload());
            const SpeculationCounts counts = rig.optimizer().speculation();
            committed += counts.committed;
            repeated += counts.repeated;
            // LAMB and Adafactor measure first, and without a norm all go on at
            // once.
            if (c.kind == RuleKind::kLamb || c.kind == RuleKind::kAdafactor ||
                (c.clipping == 0 && loss_scale == 0)) {
              EXPECT_EQ(counts, SpeculationCounts());
              continue;
            }
            int64_t updates = 0;
            for (const int64_t i : ahead) updates += sides[i] == kH;
            EXPECT_EQ(counts.committed + counts.repeated, kSteps * updates);
          }
        }
      }
    }
  }
  EXPECT_GT(committed, 0);
  EXPECT_GT(repeated, 0);
}

// The optimizer tells about the step before, whose work is over when the next
// is issued.
TEST(ChunkOptimizer, TellsWhetherAStepWasClippedOrSkipped) {
  const float inf = std::numeric_limits<float>::infinity();
  Rig rig({.clipping = 1e6, .loss_scale = 8, .ahead = {0}});
  ASSERT_TRUE(rig.Step(1, {.value = inf}).ok());
  EXPECT_FALSE(rig.optimizer().missed_before());
  ASSERT_TRUE(rig.Step(2).ok());
  EXPECT_TRUE(rig.optimizer().missed_before());  // skipped
  ASSERT_TRUE(rig.Step(3, {.value = 1e7}).ok());
  EXPECT_FALSE(rig.optimizer().missed_before());
  ASSERT_TRUE(rig.Step(4).ok());
  EXPECT_TRUE(rig.optimizer().missed_before());  // clipped
  EXPECT_EQ(rig.optimizer().speculation(),
            (SpeculationCounts{.committed = 2, .repeated = 2}));
}

// States are where the last commit left them; the bank may go at any time
// between two steps, and so may the states.
TEST(ChunkOptimizer, BanksComeAndGoBetweenSteps) {
  Case c = {.clipping = 0.5};
  for (const int64_t micro_batches : {1, 3}) {
    c.micro_batches = micro_batches;
    Rig reference(c);
    Rig rig(c);
    for (int step = 1; step <= 8; ++step) {
      ASSERT_TRUE(reference.Step(step).ok());
      ASSERT_TRUE(rig.Step(step).ok());
      for (const ChunkId id : {ChunkId(0), ChunkId(1)}) {
        if ((step + id.value) % 3 == 0) {
          ASSERT_TRUE(rig.store().DropBank(id).ok());
          EXPECT_FALSE(rig.store().has_bank(id));
        } else if (step == 7 && id == ChunkId(1)) {
          ASSERT_TRUE(rig.store().has_bank(id));
          ASSERT_TRUE(rig.store().MoveOptimizer(id, Side::kDevice).ok());
          EXPECT_FALSE(rig.store().has_bank(id));
          EXPECT_TRUE(absl::IsFailedPrecondition(rig.store().MakeBank(id)));
          ASSERT_TRUE(rig.store().MoveOptimizer(id, Side::kHost).ok());
        } else {
          ASSERT_TRUE(rig.store().MakeBank(id).ok());
        }
      }
      EXPECT_EQ(rig.AllValues(), reference.AllValues()) << step;
      EXPECT_EQ(rig.Payload(), reference.Payload());
    }
    EXPECT_GT(rig.optimizer().speculation().repeated, 0);
  }
}

TEST(ChunkOptimizer, NormThatIsNotFiniteStopsTheStepAndNamesIt) {
  for (const auto& [side, device_sums] : {std::pair(Side::kHost, false),
                                          {Side::kDevice, false},
                                          {Side::kHost, true}}) {
    Rig rig({.sides = {side, side},
             .micro_batches = device_sums ? 3 : 1,
             .clipping = 1,
             .device_sums = device_sums});
    ASSERT_TRUE(rig.Step(1).ok());
    const absl::Status status =
        rig.Step(2, {.value = std::numeric_limits<float>::infinity(),
                     .begin = 0,
                     .end = 164});
    EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
    EXPECT_NE(status.message().find("at step 2 is not finite (\"b\")"),
              std::string::npos)
        << status;
  }
}

// A gradient of 1e30 has a square beyond fp32's range: the second moment is
// infinite, and the parameter, divided by its root, looks well.
TEST(ChunkOptimizer, TellsOfAnUpdateThatNoCheckpointCouldHold) {
  const Side kH = Side::kHost, kD = Side::kDevice;
  for (const std::vector<Side>& sides :
       {std::vector<Side>{kH, kH}, {kD, kD}, {kH, kD}}) {
    for (const RuleKind kind :
         {RuleKind::kAdam, RuleKind::kLamb, RuleKind::kAdafactor}) {
      for (const int64_t at : {0, 99, 100, 163, 293}) {
        Rig rig({.sides = sides, .micro_batches = 1 + at % 2, .kind = kind});
        ASSERT_TRUE(rig.Step(1).ok());
        EXPECT_FALSE(rig.optimizer().broke());
        ASSERT_TRUE(
            rig.Step(2, {.value = 1e30f, .begin = at, .end = at + 1}).ok());
        EXPECT_FALSE(rig.optimizer().broke_before());
        EXPECT_TRUE(rig.optimizer().broke()) << at;
        ASSERT_TRUE(rig.Step(3).ok());
        EXPECT_TRUE(rig.optimizer().broke_before()) << at;
      }
    }
  }
}

// An update that ran ahead of the norm, and is done again with the gradients
// clipped, has broken nothing.
TEST(ChunkOptimizer, TellsOfNoUpdateThatWasDoneAgain) {
  Rig rig({.clipping = 1, .ahead = {0, 1}});
  ASSERT_TRUE(rig.Step(1).ok());
  ASSERT_TRUE(rig.Step(2, {.value = 1e30f, .begin = 5, .end = 6}).ok());
  EXPECT_EQ(rig.optimizer().speculation().repeated, 4);
  EXPECT_FALSE(rig.optimizer().broke());
  Rig unclipped({.clipping = 3e38, .ahead = {0, 1}});
  ASSERT_TRUE(unclipped.Step(1).ok());
  ASSERT_TRUE(unclipped.Step(2, {.value = 1e30f, .begin = 5, .end = 6}).ok());
  EXPECT_EQ(unclipped.optimizer().speculation().committed, 4);
  EXPECT_TRUE(unclipped.optimizer().broke());
}

TEST(ChunkOptimizer, UpdatesOnTheHostWhileTheScaleWaitsForTheBus) {
  Rig rig({.sides = {Side::kHost, Side::kDevice}, .clipping = 0.5});
  absl::Notification host_is_done;
  bool in_time = false;
  rig.device().Enqueue(
      StreamId::kHostToDevice, 0, [&](const ExecContext&) -> absl::Status {
        in_time =
            host_is_done.WaitForNotificationWithTimeout(absl::Seconds(20));
        return absl::OkStatus();
      });
  ASSERT_TRUE(rig.Issue(1).ok());
  EXPECT_TRUE(
      rig.device().Synchronize(rig.device().Now(StreamId::kHostCompute)).ok());
  host_is_done.Notify();
  ASSERT_TRUE(rig.device().Synchronize(rig.device().NowAll()).ok());
  EXPECT_TRUE(in_time);
}

TEST(ChunkOptimizer, ALossScaleThatIsAPowerOfTwoChangesNoBit) {
  for (Case c : Cases()) {
    Rig plain(c);
    c.loss_scale = 1024;
    Rig scaled(c);
    for (int step = 1; step <= kSteps; ++step) {
      ASSERT_TRUE(plain.Step(step).ok());
      ASSERT_TRUE(scaled.Step(step).ok());
      if (c.clipping > 0) {
        EXPECT_EQ(scaled.norm(), plain.norm());
      }
      EXPECT_GT(scaled.norm(), 0);
    }
    EXPECT_EQ(scaled.AllValues(), plain.AllValues());
    EXPECT_EQ(scaled.Payload(), plain.Payload());
  }
}

TEST(ChunkOptimizer, AStepWithAnOverflowChangesNothingAndNamesIt) {
  const Side kH = Side::kHost, kD = Side::kDevice;
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::vector<Side>& sides :
       {std::vector<Side>{kH, kH}, {kD, kD}, {kH, kD}, {kD, kH}}) {
    for (Case c : Cases()) {
      c.sides = sides;
      c.device_sums =
          c.kind == RuleKind::kLamb || c.kind == RuleKind::kAdafactor;
      c.loss_scale = 8;
      Rig rig(c);
      ASSERT_TRUE(rig.Step(1).ok());
      EXPECT_FALSE(rig.optimizer().outcome().not_finite.has_value());
      const auto values = rig.AllValues();
      const auto payload = rig.Payload();
      const struct {
        Poison poison;
        int64_t parameter;
      } kPoisons[] = {{{inf, 0, 1}, 0},
                      {{-inf, 30, 101}, 1},
                      {{std::nanf(""), 163, 165}, 2},
                      {{inf, 0, 294}, 2}};
      for (const auto& [poison, parameter] : kPoisons) {
        ASSERT_TRUE(rig.Step(2, poison).ok());
        EXPECT_EQ(rig.optimizer().outcome().not_finite, ParamId(parameter));
        EXPECT_EQ(rig.norm(), std::numeric_limits<double>::infinity());
        EXPECT_EQ(rig.AllValues(), values);
        EXPECT_EQ(rig.Payload(), payload);
      }
      // And leaves no trace in the next step.
      ASSERT_TRUE(rig.Step(2).ok());
      EXPECT_FALSE(rig.optimizer().outcome().not_finite.has_value());
      Rig undisturbed(c);
      ASSERT_TRUE(undisturbed.Step(1).ok());
      ASSERT_TRUE(undisturbed.Step(2).ok());
      EXPECT_EQ(rig.norm(), undisturbed.norm());
      EXPECT_EQ(rig.Values(StatePart::kMaster),
                undisturbed.Values(StatePart::kMaster));
      EXPECT_EQ(rig.Payload(), undisturbed.Payload());
    }
  }
}

// Collects the chunks whose updates the host makes.
class HostUpdates : public DeviceObserver {
 public:
  void OnWork(StreamId stream, int64_t, int64_t tag, int64_t,
              int64_t) override {
    const WorkTag is = WorkTag::Unpack(tag);
    if (stream != StreamId::kHostCompute || is.kind != WorkKind::kUpdate) {
      return;
    }
    const std::lock_guard lock(mutex_);
    chunks_.insert(is.chunk);
  }
  void OnWait(StreamId, int64_t, int64_t, const Fence&, int64_t,
              int64_t) override {}
  std::set<int64_t> chunks() {
    const std::lock_guard lock(mutex_);
    return chunks_;
  }

 private:
  std::mutex mutex_;
  std::set<int64_t> chunks_;
};

// By them a plan's durations of updates on the host are measured.
TEST(ChunkOptimizer, UpdatesOnTheHostAreThoseOfChunksOnItsSide) {
  for (const RuleKind kind :
       {RuleKind::kAdam, RuleKind::kLamb, RuleKind::kAdafactor}) {
    HostUpdates updates;
    {
      Rig rig({.sides = {Side::kDevice, Side::kHost},
               .kind = kind,
               .observer = &updates});
      ASSERT_TRUE(rig.Step(1).ok());
    }
    EXPECT_EQ(updates.chunks(), std::set<int64_t>{1});
  }
}

TEST(ChunkOptimizer, DeviceSideChunkWhosePayloadIsAwayIsAnErrorThatNamesIt) {
  Rig rig({.sides = {Side::kDevice, Side::kHost}});
  ASSERT_TRUE(rig.store().Drop(ChunkId(0)).ok());
  rig.optimizer().BeginStep({.number = 1, .lr = kLearningRate}, 1);
  const absl::Status status = rig.optimizer().Reduce(ChunkId(0), 0, Moment(0));
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_NE(status.message().find("chunk 0"), std::string::npos);
}

}  // namespace
}  // namespace castor
