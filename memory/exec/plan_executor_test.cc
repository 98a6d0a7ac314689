#include "memory/exec/plan_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "device/host/host_device.h"
#include "memory/exec/activation_store.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

// Three trainable chunks of 64 fp32 elements; home i holds 10 i, its states
// 10 i + 1.
class PlanExecutorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto layout =
        MakeChunkLayout({{.name = "a", .elements = 64},
                         {.name = "b", .elements = 64},
                         {.name = "c", .elements = 64}},
                        {.chunk_bytes = 256,
                         .states = {.slots = {{.name = "m"}, {.name = "v"}}}});
    ASSERT_TRUE(layout.ok());
    layout_ = *layout;
    device_ = *HostDevice::Create({.memory_bytes = 1 << 16});
    host_ = *HostMemory::Create({.budget_bytes = 1 << 20});
    arena_ = *Arena::Create(device_.get(), {.scribble_freed = true});
    store_ =
        *ChunkStore::Create(device_.get(), arena_.get(), host_.get(), &layout_,
                            false, std::vector<Side>(3, Side::kHost));
    executor_ = std::make_unique<PlanExecutor>(store_.get());
    for (int64_t i = 0; i < 3; ++i) {
      const float value = static_cast<float>(10 * i);
      ASSERT_TRUE(store_
                      ->Fill(ChunkId(i),
                             [&](std::byte* home, const StateView& view) {
                               float* x = reinterpret_cast<float*>(home);
                               std::fill(x, x + 64, value);
                               std::fill(view.masters(),
                                         view.masters() + 3 * 64, value + 1);
                               return absl::OkStatus();
                             })
                      .ok());
    }
  }
  void TearDown() override {
    EXPECT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  }

  static std::shared_ptr<const Plan> MakePlan(
      std::vector<ResidentChunk> initial, std::vector<Side> side,
      std::vector<std::vector<Action>> actions = {{}}) {
    Plan plan;
    plan.initial = std::move(initial);
    plan.side = std::move(side);
    plan.actions = std::move(actions);
    return std::make_shared<const Plan>(std::move(plan));
  }
  void MakeDirty(int64_t chunk, float value) {
    const ChunkId id(chunk);
    device_->Wait(StreamId::kCompute, store_->WaitToUsePayload(id, true), 0);
    float* x = reinterpret_cast<float*>(store_->payload(id));
    store_->NotePayloadUse(id,
                           device_->Enqueue(StreamId::kCompute, 0,
                                            [x, value](const ExecContext&) {
                                              std::fill(x, x + 64, value);
                                              return absl::OkStatus();
                                            }),
                           true);
  }
  // "." absent, "c" clean, "d" dirty.
  std::string Residency() const {
    std::string text;
    for (int64_t i = 0; i < 3; ++i) {
      const ChunkId id(i);
      text += !store_->resident(id) ? "." : store_->dirty(id) ? "d" : "c";
    }
    return text;
  }
  float Home(int64_t chunk) {
    float value = -1;
    EXPECT_TRUE(store_->ReadHome(ChunkId(chunk), 63, 64, &value).ok());
    return value;
  }

  static constexpr Side kH = Side::kHost, kD = Side::kDevice;
  ChunkLayout layout_;
  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<HostMemory> host_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ChunkStore> store_;
  std::unique_ptr<PlanExecutor> executor_;
};

TEST_F(PlanExecutorTest, AdoptBringsChunksAndStatesToThePlansStart) {
  ASSERT_TRUE(
      executor_->Adopt(MakePlan({{ChunkId(0)}, {ChunkId(2)}}, {kD, kH, kH}))
          .ok());
  EXPECT_EQ(Residency(), "c.c");
  EXPECT_EQ(store_->side(ChunkId(0)), kD);
  EXPECT_EQ(store_->side(ChunkId(1)), kH);
  // The next one starts with others: what is dirty is written back first.
  MakeDirty(2, 99);
  ASSERT_TRUE(executor_->Adopt(MakePlan({{ChunkId(1)}}, {kH, kD, kH})).ok());
  EXPECT_EQ(Residency(), ".c.");
  EXPECT_EQ(Home(2), 99);
  EXPECT_EQ(store_->side(ChunkId(0)), kH);
  EXPECT_EQ(store_->side(ChunkId(1)), kD);
  float master = 0;
  ASSERT_TRUE(
      store_->ReadState(ChunkId(1), StatePart::Slot(1), 63, 64, &master).ok());
  EXPECT_EQ(master, 11);
  EXPECT_TRUE(store_->CheckConsistency().ok());
}

TEST_F(PlanExecutorTest, AdoptKeepsADirtyChunkWhereThePlanStartsWithOne) {
  ASSERT_TRUE(
      executor_->Adopt(MakePlan({{ChunkId(0)}, {ChunkId(1)}}, {kD, kD, kH}))
          .ok());
  MakeDirty(0, 5);
  MakeDirty(1, 6);
  const int64_t before = store_->d2h_bytes();
  ASSERT_TRUE(executor_
                  ->Adopt(MakePlan({{ChunkId(0), true}, {ChunkId(1), false}},
                                   {kD, kD, kH}))
                  .ok());
  EXPECT_EQ(Residency(), "dc.");
  EXPECT_EQ(store_->d2h_bytes() - before, 256);  // chunk 1 alone
  EXPECT_EQ(Home(1), 6);
}

TEST_F(PlanExecutorTest, AdoptOfThePlanInUseDoesNothing) {
  const auto plan = MakePlan({{ChunkId(0)}}, {kH, kH, kH});
  ASSERT_TRUE(executor_->Adopt(plan).ok());
  MakeDirty(0, 5);
  const int64_t moved = store_->h2d_bytes() + store_->d2h_bytes();
  ASSERT_TRUE(executor_->Adopt(plan).ok());
  EXPECT_EQ(store_->h2d_bytes() + store_->d2h_bytes(), moved);
  EXPECT_EQ(Residency(), "d..");
  EXPECT_EQ(executor_->plan(), plan.get());
}

TEST_F(PlanExecutorTest, ActCarriesOutEachMomentsActionsInOrder) {
  ASSERT_TRUE(executor_
                  ->Adopt(MakePlan({{ChunkId(0)}}, {kH, kH, kH},
                                   {{Fetch(1, 0), Drop(0, 1)},
                                    {},
                                    {CopyBack(1, 2), Drop(1, 2), Fetch(0, 0)}}))
                  .ok());
  EXPECT_EQ(Residency(), "c..");
  ASSERT_TRUE(executor_->Act(Moment(0), 1).ok());
  EXPECT_EQ(Residency(), ".c.");
  ASSERT_TRUE(executor_->Act(Moment(1), 1).ok());
  MakeDirty(1, 42);
  EXPECT_EQ(Residency(), ".d.");
  ASSERT_TRUE(executor_->Act(Moment(2), 1).ok());
  EXPECT_EQ(Residency(), "c..");
  EXPECT_EQ(Home(1), 42);
}

TEST_F(PlanExecutorTest, IllegalActionIsAnErrorThatNamesTheChunk) {
  ASSERT_TRUE(
      executor_
          ->Adopt(MakePlan({{ChunkId(0)}}, {kH, kH, kH},
                           {{Fetch(0, 0)}, {Drop(1, 0)}, {CopyBack(2, 0)}}))
          .ok());
  for (int64_t i = 0; i < 3; ++i) {
    const absl::Status status = executor_->Act(Moment(i), 1);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(
        absl::StrContains(status.message(), "chunk " + std::to_string(i) + ","))
        << status;
  }
  EXPECT_EQ(Residency(), "c..");
}

// Banks come with a plan that updates ahead, and stay over one that does not,
// unless that brings states to the host.
TEST_F(PlanExecutorTest, AdoptMakesBanksAndDropsThemForStates) {
  const auto banks = [&] {
    std::string text;
    for (int64_t i = 0; i < 3; ++i) {
      text += store_->has_bank(ChunkId(i)) ? "b" : ".";
    }
    return text;
  };
  const auto ahead = MakePlan({}, {kH, kH, kD}, {{Speculate(0), Speculate(1)}});
  ASSERT_TRUE(executor_->Adopt(ahead).ok());
  EXPECT_EQ(banks(), "bb.");
  const int64_t with_banks = host_->stats().used_bytes;
  ASSERT_TRUE(executor_->Adopt(MakePlan({}, {kH, kH, kD})).ok());
  EXPECT_EQ(banks(), "bb.");
  ASSERT_TRUE(
      executor_->Adopt(MakePlan({}, {kH, kH, kD}, {{Speculate(1)}})).ok());
  EXPECT_EQ(banks(), ".b.");
  ASSERT_TRUE(executor_->Adopt(MakePlan({}, {kH, kH, kH})).ok());
  EXPECT_EQ(banks(), "...");
  // Memory that the run has taken meanwhile stays with it.
  ASSERT_TRUE(executor_->Adopt(MakePlan({}, {kH, kH, kD})).ok());
  const auto other = host_->Allocate(host_->budget_bytes() - with_banks + 1024,
                                     Category::kStaging, "other");
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE(executor_->Adopt(ahead).ok());
  EXPECT_EQ(banks(), "b..");
}

// The states of chunk 2 stay on the device, below the others: three units.
class PlannedAddressesTest : public PlanExecutorTest {
 protected:
  PlannedAddressesTest() {
    plan_.initial = {{ChunkId(0)}, {ChunkId(2)}};
    plan_.side = {kH, kH, kD};
    plan_.actions = {{Fetch(1, 0), Drop(0, 1)}, {Drop(1, 2), Fetch(0, 0)}};
    plan_.addresses = Addresses();
    plan_.addresses->begin = 3 * 256;
    plan_.addresses->initial = {10 * 256, 3 * 256};
    plan_.addresses->actions = {20 * 256, 10 * 256};
    plan_.addresses->non_model = {{30 * 256, 256}, {31 * 256, 512}};
  }
  void Adopt() {
    ASSERT_TRUE(executor_->Adopt(std::make_shared<const Plan>(plan_)).ok());
  }
  // The units at which payloads lie.
  std::vector<int64_t> Offsets() const {
    std::vector<int64_t> units;
    for (int64_t i = 0; i < 3; ++i) {
      const ChunkId id(i);
      units.push_back(store_->resident(id) ? store_->offset(id) / 256 : -1);
    }
    return units;
  }

  Plan plan_;
};

TEST_F(PlannedAddressesTest, AreThoseOfEveryStep) {
  // Something else was there before.
  ASSERT_TRUE(
      executor_->Adopt(MakePlan({{ChunkId(1)}, {ChunkId(2)}}, {kD, kH, kH}))
          .ok());
  MakeDirty(2, 7);
  Adopt();
  EXPECT_TRUE(executor_->follows_addresses());
  EXPECT_EQ(Home(2), 7);
  for (uint16_t step = 1; step <= 3; ++step) {
    EXPECT_EQ(Offsets(), (std::vector<int64_t>{10, -1, 3}));
    ASSERT_TRUE(executor_->Act(Moment(0), step).ok());
    EXPECT_EQ(Offsets(), (std::vector<int64_t>{-1, 20, 3}));
    EXPECT_EQ(executor_->NextNonModel(200), 30 * 256);
    EXPECT_EQ(executor_->NextNonModel(512), 31 * 256);
    EXPECT_EQ(executor_->NextNonModel(1), Arena::kAnywhere);
    ASSERT_TRUE(executor_->Act(Moment(1), step).ok());
  }
  EXPECT_EQ(arena_->stats().misplaced, 0);
  EXPECT_TRUE(arena_->CheckConsistency().ok());
  // The same decisions find everything in its place.
  const int64_t copied = store_->h2d_bytes() + store_->d2h_bytes();
  Adopt();
  EXPECT_TRUE(executor_->follows_addresses());
  EXPECT_EQ(store_->h2d_bytes() + store_->d2h_bytes(), copied);
}

// Chunk 3 is activations of two tensors.
TEST_F(PlannedAddressesTest, AreThoseOfActivationsThatComeBack) {
  ActivationStore activations(device_.get(), arena_.get(), host_.get());
  executor_->set_activations(&activations);
  StepTrace trace;
  trace.chunks.resize(4);
  trace.chunks[3].payload_bytes = 512;
  trace.chunks[3].block = 0;
  trace.chunks[3].pieces = 2;
  plan_.side.push_back(kH);
  plan_.actions = {{},
                   {Fetch(3, 1)},
                   {CopyBack(3, 2), Drop(3, 2)},
                   {Fetch(1, 3), Fetch(3, 3)},
                   {Drop(3, 4), Drop(1, 4)}};
  plan_.addresses->actions = {20 * 256, 41 * 256, 43 * 256};
  for (uint16_t step = 1; step <= 2; ++step) {
    activations.BeginStep(trace);
    Adopt();
    ASSERT_TRUE(executor_->follows_addresses());
    ASSERT_TRUE(executor_->Act(Moment(0), step).ok());
    std::vector<int64_t> tensors;
    for (int i = 0; i < 2; ++i) {
      tensors.push_back(
          arena_->Allocate(256, Category::kActivations, End::kHigh, "tensor")
              ->value);
    }
    ASSERT_TRUE(activations.Offer(ChunkId(3), tensors).ok());
    ASSERT_TRUE(executor_->Act(Moment(1), step).ok());
    ASSERT_TRUE(executor_->Act(Moment(2), step).ok());
    EXPECT_FALSE(activations.PlaceOf(tensors[0]).valid());
    ASSERT_TRUE(executor_->Act(Moment(3), step).ok());
    EXPECT_EQ(Offsets(), (std::vector<int64_t>{10, 20, 3}));
    EXPECT_EQ(arena_->Offset(activations.PlaceOf(tensors[0])), 41 * 256);
    EXPECT_EQ(arena_->Offset(activations.PlaceOf(tensors[1])), 43 * 256);
    ASSERT_TRUE(activations.Used(ChunkId(3)).ok());
    ASSERT_TRUE(executor_->Act(Moment(4), step).ok());
    for (const int64_t tensor : tensors) activations.Release(tensor);
  }
  EXPECT_EQ(arena_->stats().misplaced, 0);
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());  // before homes go
}

TEST_F(PlannedAddressesTest, EndWithABlockThatTheTraceDoesNotHave) {
  Adopt();
  ASSERT_TRUE(executor_->Act(Moment(0), 1).ok());
  EXPECT_EQ(executor_->NextNonModel(512), Arena::kAnywhere);
  EXPECT_EQ(executor_->NextNonModel(512), Arena::kAnywhere);
  ASSERT_TRUE(executor_->Act(Moment(1), 1).ok());
  ASSERT_TRUE(executor_->Act(Moment(0), 2).ok());
  EXPECT_EQ(executor_->NextNonModel(256), 30 * 256);
}

TEST_F(PlannedAddressesTest, AreGivenUpWhereABlockWasMisplaced) {
  Adopt();
  const auto other =
      arena_->Allocate(256, Category::kStaging, End::kLow, "other", 20 * 256);
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE(executor_->Act(Moment(0), 1).ok());
  EXPECT_EQ(arena_->stats().misplaced, 1);
  EXPECT_NE(Offsets()[1], 20);
  ASSERT_TRUE(executor_->Act(Moment(1), 1).ok());
  ASSERT_TRUE(
      executor_->Adopt(std::make_shared<const Plan>(*executor_->plan())).ok());
  // The other block moved down among what stays, where no plan expects it.
  EXPECT_FALSE(executor_->follows_addresses());
  EXPECT_EQ(Residency(), "c.c");
  arena_->Free(*other);
  ASSERT_TRUE(executor_->Adopt(MakePlan({}, {kH, kH, kH})).ok());
  Adopt();
  EXPECT_TRUE(executor_->follows_addresses());
  EXPECT_EQ(Offsets(), (std::vector<int64_t>{10, -1, 3}));
}

TEST_F(PlannedAddressesTest, AreNotFollowedWhereOthersHaveAPart) {
  ASSERT_TRUE(arena_->Claim(1));
  Adopt();
  EXPECT_FALSE(executor_->follows_addresses());
  EXPECT_EQ(executor_->NextNonModel(200), Arena::kAnywhere);
}

TEST_F(PlanExecutorTest, TellsOfUpdatesAhead) {
  ASSERT_TRUE(
      executor_
          ->Adopt(MakePlan({}, {kH, kH, kH}, {{Speculate(1)}, {Speculate(0)}}))
          .ok());
  ASSERT_TRUE(executor_->Act(Moment(0), 1).ok());  // to nobody
  std::vector<int64_t> chunks;
  executor_->set_speculate([&](ChunkId chunk) {
    chunks.push_back(chunk.value);
    return chunk.value == 0 ? absl::InternalError("why") : absl::OkStatus();
  });
  EXPECT_TRUE(executor_->Act(Moment(0), 1).ok());
  EXPECT_EQ(executor_->Act(Moment(1), 1), absl::InternalError("why"));
  EXPECT_EQ(chunks, (std::vector<int64_t>{1, 0}));
}

}  // namespace
}  // namespace castor
