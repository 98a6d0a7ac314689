#include "memory/exec/chunk_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

// Chunks 0 and 1 of 64 and 128 trainable elements, chunk 2 of 64 frozen ones;
// payloads are fp32. Freed device memory is NaN.
class ChunkStoreTest : public ::testing::Test {
 protected:
  static constexpr ChunkId kA{0}, kB{1}, kFrozen{2};

  void SetUp() override {
    auto layout =
        MakeChunkLayout({{.name = "a", .elements = 64},
                         {.name = "b", .elements = 128},
                         {.name = "f", .elements = 64, .trainable = false}},
                        {.chunk_bytes = 256,
                         .states = {.slots = {{.name = "m"}, {.name = "v"}}}});
    ASSERT_TRUE(layout.ok()) << layout.status();
    layout_ = *layout;
    ASSERT_EQ(layout_.num_chunks(), 3);
    auto host = HostMemory::Create({.budget_bytes = 1 << 20});
    ASSERT_TRUE(host.ok());
    host_ = *std::move(host);
  }
  void TearDown() override {
    if (device_ == nullptr) return;
    EXPECT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  }

  absl::Status Make(std::vector<Side> sides, bool accumulate = false,
                    int64_t device_bytes = 1 << 16) {
    auto device = HostDevice::Create({.memory_bytes = device_bytes});
    if (!device.ok()) return device.status();
    device_ = *std::move(device);
    auto arena = Arena::Create(device_.get(), {.scribble_freed = true});
    if (!arena.ok()) return arena.status();
    arena_ = *std::move(arena);
    auto store = ChunkStore::Create(device_.get(), arena_.get(), host_.get(),
                                    &layout_, accumulate, std::move(sides));
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    return absl::OkStatus();
  }
  void MakeOnHost() {
    ASSERT_TRUE(Make({Side::kHost, Side::kHost, Side::kHost}).ok());
  }
  // Home: chunk * 100 + i; master and the slots: 1000, 2000, 3000 more.
  void FillAll() {
    for (ChunkId id : {kA, kB, kFrozen}) {
      ASSERT_TRUE(store_
                      ->Fill(id,
                             [&](std::byte* home, const StateView& view) {
                               for (int64_t i = 0; i < Size(id); ++i) {
                                 const float x = Value(id, i);
                                 reinterpret_cast<float*>(home)[i] = x;
                                 if (view.master == nullptr) continue;
                                 view.masters()[i] = x + 1000;
                                 view.slot(0)[i] = x + 2000;
                                 view.slot(1)[i] = x + 3000;
                               }
                               return absl::OkStatus();
                             })
                      .ok());
    }
  }
  static float Value(ChunkId id, int64_t i) {
    return static_cast<float>(id.value * 100 + i);
  }
  int64_t Size(ChunkId id) const { return layout_.chunk(id).elements; }

  absl::Status Fetch(ChunkId id) { return store_->Fetch(id, {}); }
  absl::Status CopyBack(ChunkId id) { return store_->CopyBack(id, {}); }

  // An operator that adds `x` to a resident payload.
  void AddOnDevice(ChunkId id, float x) {
    device_->Wait(StreamId::kCompute, store_->WaitToUsePayload(id, true), 0);
    float* const data = reinterpret_cast<float*>(store_->payload(id));
    const Fence done = device_->Enqueue(
        StreamId::kCompute, 0, [data, x, n = Size(id)](const ExecContext&) {
          for (int64_t i = 0; i < n; ++i) data[i] += x;
          return absl::OkStatus();
        });
    store_->NotePayloadUse(id, done, /*writes=*/true);
  }
  std::vector<float> Payload(ChunkId id) {
    std::vector<float> values(Size(id));
    device_->Wait(StreamId::kDeviceToHost, store_->WaitToUsePayload(id, false),
                  0);
    const Fence done =
        device_->Copy(StreamId::kDeviceToHost, 0, values.data(),
                      store_->payload(id), Size(id) * sizeof(float));
    store_->NotePayloadUse(id, done, /*writes=*/false);
    EXPECT_TRUE(device_->Synchronize(done).ok());
    return values;
  }
  std::vector<float> Home(ChunkId id) {
    std::vector<float> values(Size(id));
    EXPECT_TRUE(store_->ReadHome(id, 0, Size(id), values.data()).ok());
    return values;
  }
  std::vector<float> Part(ChunkId id, StatePart part) {
    std::vector<float> values(Size(id));
    EXPECT_TRUE(store_->ReadState(id, part, 0, Size(id), values.data()).ok());
    return values;
  }
  std::vector<float> Expected(ChunkId id, float plus) {
    std::vector<float> values;
    for (int64_t i = 0; i < Size(id); ++i)
      values.push_back(Value(id, i) + plus);
    return values;
  }
  void ExpectIllegal(const absl::Status& status, ChunkId id, const char* what) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(absl::StrContains(
        status.message(), absl::StrCat(what, " of chunk ", id.value, ", ")))
        << status;
  }

  ChunkLayout layout_;
  std::unique_ptr<HostMemory> host_;
  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ChunkStore> store_;
};

TEST_F(ChunkStoreTest, StatesTakeTheirRoomWhereTheyLive) {
  ASSERT_TRUE(Make({Side::kHost, Side::kDevice, Side::kHost}, true).ok());
  EXPECT_EQ(host_->stats().used[Category::kParameters], 256 * 4);
  EXPECT_EQ(host_->stats().used[Category::kOptimizerStates], 64 * 16);
  EXPECT_EQ(arena_->stats().used[Category::kOptimizerStates], 128 * 16);
  EXPECT_TRUE(store_->CheckConsistency().ok());
}

TEST_F(ChunkStoreTest, BudgetsThatAreTooSmallAreErrors) {
  EXPECT_TRUE(absl::IsResourceExhausted(
      Make({Side::kHost, Side::kDevice, Side::kHost}, false, 128 * 12 - 1)));
  auto small = HostMemory::Create({.budget_bytes = 1024});
  ASSERT_TRUE(small.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(
      ChunkStore::Create(device_.get(), arena_.get(), small->get(), &layout_,
                         false, std::vector<Side>(3, Side::kHost))
          .status()));
}

// The table of plan.h: states "absent", "clean", "dirty" by action.
TEST_F(ChunkStoreTest, IllegalActionsAreErrorsThatNameTheChunk) {
  MakeOnHost();
  FillAll();
  // Absent.
  ExpectIllegal(CopyBack(kA), kA, "write back");
  ExpectIllegal(store_->Drop(kA), kA, "drop");
  // Clean.
  ASSERT_TRUE(Fetch(kA).ok());
  EXPECT_TRUE(store_->resident(kA));
  EXPECT_FALSE(store_->dirty(kA));
  ExpectIllegal(Fetch(kA), kA, "fetch");
  EXPECT_TRUE(CopyBack(kA).ok());
  EXPECT_EQ(store_->d2h_bytes(), 0);  // nothing clean is written back
  // Dirty.
  AddOnDevice(kA, 1);
  EXPECT_TRUE(store_->dirty(kA));
  ExpectIllegal(Fetch(kA), kA, "fetch");
  ExpectIllegal(store_->Drop(kA), kA, "drop");
  std::vector<float> unused(64);
  ExpectIllegal(store_->ReadHome(kA, 0, 64, unused.data()), kA,
                "reading the home");
  ExpectIllegal(
      store_->Fill(
          kA, [](std::byte*, const StateView&) { return absl::OkStatus(); }),
      kA, "filling");
  EXPECT_TRUE(CopyBack(kA).ok());
  EXPECT_TRUE(store_->Drop(kA).ok());
  ExpectIllegal(store_->Drop(kA), kA, "drop");
  EXPECT_TRUE(store_->CheckConsistency().ok());
}

TEST_F(ChunkStoreTest, HostWorkIsIllegalWhileThePayloadIsAway) {
  ASSERT_TRUE(Make({Side::kHost, Side::kDevice, Side::kHost}).ok());
  FillAll();
  auto run = [&](ChunkId id) {
    return store_->RunOnHost(
        id, {}, [](std::byte*, const StateView&, const ExecContext&) {
          return absl::OkStatus();
        });
  };
  ExpectIllegal(run(kB), kB, "host work");  // the device's side
  ASSERT_TRUE(Fetch(kA).ok());
  ExpectIllegal(run(kA), kA, "host work");
  ASSERT_TRUE(store_->Drop(kA).ok());
  EXPECT_TRUE(run(kA).ok());
}

TEST_F(ChunkStoreTest, ContentsFollowThroughFetchWriteBackAndDrop) {
  MakeOnHost();
  FillAll();
  for (int round = 0; round < 3; ++round) {
    for (ChunkId id : {kA, kB, kFrozen}) {
      ASSERT_TRUE(Fetch(id).ok());
      EXPECT_EQ(Payload(id), Expected(id, id == kFrozen ? 0 : round));
      if (id != kFrozen) AddOnDevice(id, 1);
      ASSERT_TRUE(CopyBack(id).ok());
      EXPECT_FALSE(store_->dirty(id));
      // Resident and clean: the copy and the home agree.
      EXPECT_EQ(Payload(id), Home(id));
      ASSERT_TRUE(store_->Drop(id).ok());
    }
    EXPECT_EQ(arena_->stats().used_bytes, 0);
  }
  EXPECT_EQ(Home(kA), Expected(kA, 3));
  EXPECT_EQ(Home(kB), Expected(kB, 3));
  EXPECT_EQ(Home(kFrozen), Expected(kFrozen, 0));
  EXPECT_EQ(store_->h2d_bytes(), 3 * (64 + 128 + 64) * 4);
  EXPECT_EQ(store_->d2h_bytes(), 3 * (64 + 128) * 4);
  EXPECT_TRUE(store_->CheckConsistency().ok());
}

// Nothing in between waits on the host: only the fences order the streams.
TEST_F(ChunkStoreTest, WorkOnFourStreamsIsOrderedByFencesAlone) {
  MakeOnHost();
  FillAll();
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(Fetch(kB).ok());
    AddOnDevice(kB, 1);
    ASSERT_TRUE(CopyBack(kB).ok());
    ASSERT_TRUE(store_->Drop(kB).ok());
    ASSERT_TRUE(store_
                    ->RunOnHost(kB, {},
                                [](std::byte* home, const StateView& view,
                                   const ExecContext&) {
                                  float* x = reinterpret_cast<float*>(home);
                                  for (int64_t i = 0; i < view.elements; ++i) {
                                    view.masters()[i] += 1;
                                    x[i] += 1;
                                  }
                                  return absl::OkStatus();
                                })
                    .ok());
  }
  EXPECT_EQ(Home(kB), Expected(kB, 40));
  EXPECT_EQ(Part(kB, StatePart::kMaster), Expected(kB, 1020));
}

TEST_F(ChunkStoreTest, StatesKeepTheirContentsOnEitherSide) {
  ASSERT_TRUE(Make({Side::kHost, Side::kDevice, Side::kHost}).ok());
  FillAll();
  auto expect_all = [&] {
    for (ChunkId id : {kA, kB}) {
      EXPECT_EQ(Part(id, StatePart::kMaster), Expected(id, 1000));
      EXPECT_EQ(Part(id, StatePart::Slot(0)), Expected(id, 2000));
      EXPECT_EQ(Part(id, StatePart::Slot(1)), Expected(id, 3000));
    }
    EXPECT_TRUE(store_->CheckConsistency().ok());
  };
  expect_all();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(store_->MoveOptimizer(kA, Side::kDevice).ok());
    ASSERT_TRUE(store_->MoveOptimizer(kB, Side::kHost).ok());
    EXPECT_EQ(store_->side(kA), Side::kDevice);
    EXPECT_EQ(arena_->stats().used[Category::kOptimizerStates], 64 * 12);
    EXPECT_EQ(host_->stats().used[Category::kOptimizerStates], 128 * 12);
    expect_all();
    ASSERT_TRUE(store_->MoveOptimizer(kA, Side::kHost).ok());
    ASSERT_TRUE(store_->MoveOptimizer(kA, Side::kHost).ok());
    ASSERT_TRUE(store_->MoveOptimizer(kB, Side::kDevice).ok());
    expect_all();
  }
  EXPECT_EQ(store_->h2d_bytes(), 3 * (64 + 128) * 12);
  EXPECT_EQ(store_->d2h_bytes(), 3 * (64 + 128) * 12);
}

TEST_F(ChunkStoreTest, SlotsMayBeOfAnotherTypeOrNone) {
  for (const bool half : {true, false}) {
    store_.reset();
    arena_.reset();
    layout_.states.slots.clear();
    if (half) layout_.states.slots = {{"a", StateFormat::kBFloat16}, {"b"}};
    const int64_t bytes = half ? 14 : 8;
    ASSERT_TRUE(Make({Side::kHost, Side::kDevice, Side::kHost}, true).ok());
    // The host counts in units of 256 bytes.
    EXPECT_EQ(host_->stats().used[Category::kOptimizerStates],
              half ? 1024 : 512);
    EXPECT_EQ(arena_->stats().used[Category::kOptimizerStates], 128 * bytes);
    for (ChunkId id : {kA, kB}) {
      const auto fill = [&](std::byte*, const StateView& view) {
        std::byte* const base = view.master;
        const int64_t n = view.elements;
        EXPECT_EQ(view.slots[0], half ? base + 4 * n : nullptr);
        EXPECT_EQ(view.slots[1], half ? base + 6 * n : nullptr);
        EXPECT_EQ(reinterpret_cast<std::byte*>(view.sum),
                  base + (half ? 10 : 4) * n);
        for (int64_t i = 0; i < n; ++i) {
          view.masters()[i] = Value(id, i);
          view.sum[i] = -1;
          if (!half) continue;
          view.slot<uint16_t>(0)[i] = static_cast<uint16_t>(i);
          view.slot(1)[i] = Value(id, i) + 1;
        }
        return absl::OkStatus();
      };
      ASSERT_TRUE(store_->Fill(id, fill).ok());
      EXPECT_EQ(Part(id, StatePart::kMaster), Expected(id, 0));
      if (!half) continue;
      EXPECT_EQ(Part(id, StatePart::Slot(1)), Expected(id, 1));
      std::vector<uint16_t> some(10);
      ASSERT_TRUE(
          store_->ReadState(id, StatePart::Slot(0), 20, 30, some.data()).ok());
      for (int i = 0; i < 10; ++i) EXPECT_EQ(some[i], 20 + i);
    }
  }
}

TEST_F(ChunkStoreTest, MoveThatDoesNotFitLeavesTheStatesWhereTheyAre) {
  ASSERT_TRUE(Make({Side::kHost, Side::kHost, Side::kHost}, false, 1024).ok());
  FillAll();
  EXPECT_TRUE(
      absl::IsResourceExhausted(store_->MoveOptimizer(kB, Side::kDevice)));
  EXPECT_EQ(store_->side(kB), Side::kHost);
  EXPECT_EQ(Part(kB, StatePart::Slot(1)), Expected(kB, 3000));
  EXPECT_TRUE(store_->CheckConsistency().ok());
}

TEST_F(ChunkStoreTest, DeviceStatesAreUsedOnTheComputeStream) {
  ASSERT_TRUE(Make({Side::kDevice, Side::kHost, Side::kHost}, true).ok());
  FillAll();
  device_->Wait(StreamId::kCompute, store_->WaitToUseOptimizer(kA), 0);
  const StateView view = store_->optimizer_on_device(kA);
  EXPECT_EQ(view.elements, 64);
  EXPECT_EQ(view.sum, view.masters() + 3 * 64);
  store_->NoteOptimizerUse(
      kA, device_->Enqueue(StreamId::kCompute, 0, [view](const ExecContext&) {
        for (int64_t i = 0; i < view.elements; ++i) view.slot(0)[i] += 1;
        return absl::OkStatus();
      }));
  EXPECT_EQ(Part(kA, StatePart::Slot(0)), Expected(kA, 2001));
}

TEST_F(ChunkStoreTest, GradientBytesAreCountedWhileThePayloadIsResident) {
  MakeOnHost();
  FillAll();
  const auto used = [&](Category category) {
    return arena_->stats().used[category];
  };
  store_->AddGradientBytes(kB, 128);  // remembered until it is resident
  EXPECT_EQ(used(Category::kGradients), 0);
  ASSERT_TRUE(Fetch(kB).ok());
  EXPECT_EQ(used(Category::kGradients), 128);
  store_->AddGradientBytes(kB, 128);
  EXPECT_EQ(used(Category::kGradients), 256);
  EXPECT_EQ(used(Category::kParameters), 256);
  store_->HoldsParameters(kB);
  EXPECT_EQ(used(Category::kGradients), 0);
  EXPECT_EQ(used(Category::kParameters), 512);
}

// The payload stays as it is while gradients are written, leave and are reduced
// beside it; freed memory is NaN, so that a block that went too early shows.
TEST_F(ChunkStoreTest, GradientsBesideAPayloadLeaveItClean) {
  ASSERT_TRUE(
      Make({Side::kHost, Side::kDevice, Side::kHost}, /*accumulate=*/true)
          .ok());
  FillAll();
  ASSERT_TRUE(Fetch(kA).ok());
  const int64_t used = arena_->stats().used_bytes;
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(store_->MakeGradients(kA).ok());
    EXPECT_EQ(arena_->stats().used[Category::kGradients], 256);
    ASSERT_NE(store_->gradients(kA), store_->payload(kA));
    // Twice what the parameters are.
    device_->Wait(StreamId::kCompute, store_->WaitToUsePayload(kA, true), 0);
    const Fence done =
        device_->Enqueue(StreamId::kCompute, 0,
                         [x = reinterpret_cast<float*>(store_->payload(kA)),
                          g = reinterpret_cast<float*>(store_->gradients(kA)),
                          n = Size(kA)](const ExecContext&) {
                           for (int64_t i = 0; i < n; ++i) g[i] = 2 * x[i];
                           return absl::OkStatus();
                         });
    store_->NotePayloadUse(kA, done, /*writes=*/true);
    store_->AddGradientBytes(kA, 256);  // counted as the block's already
    EXPECT_EQ(arena_->stats().used[Category::kGradients], 256);
    EXPECT_FALSE(store_->dirty(kA));
    ExpectIllegal(store_->DropGradients(kA), kA, "dropping gradients");
    ASSERT_TRUE(store_->SendGradients(kA, {}).ok());
    ExpectIllegal(store_->SendGradients(kA, {}), kA, "sending gradients");
    ASSERT_TRUE(store_->DropGradients(kA).ok());
    EXPECT_EQ(arena_->stats().used_bytes, used);
    const bool drops = round % 2 == 1;
    if (drops) {
      ASSERT_TRUE(store_->Drop(kA).ok());
      ExpectIllegal(Fetch(kA), kA, "fetch");  // the home has gradients
    }
    // Adds them up and puts the parameters back, as a reduce does.
    ASSERT_TRUE(store_
                    ->RunOnHost(kA, {},
                                [](std::byte* home, const StateView& view,
                                   const ExecContext&) {
                                  float* x = reinterpret_cast<float*>(home);
                                  for (int64_t i = 0; i < view.elements; ++i) {
                                    view.slot(0)[i] += x[i];
                                    x[i] = view.masters()[i] - 1000;
                                  }
                                  return absl::OkStatus();
                                })
                    .ok());
    if (drops) {
      ASSERT_TRUE(Fetch(kA).ok());
    }
    EXPECT_EQ(Payload(kA), Expected(kA, 0));
    EXPECT_TRUE(store_->CheckConsistency().ok());
  }
  EXPECT_EQ(store_->d2h_bytes(), 20 * 256);
  EXPECT_EQ(store_->h2d_bytes(), 11 * 256);
  std::vector<float> sums = Expected(kA, 2000);
  for (int64_t i = 0; i < Size(kA); ++i) sums[i] += 40 * Value(kA, i);
  EXPECT_EQ(Part(kA, StatePart::Slot(0)), sums);
}

TEST_F(ChunkStoreTest, IllegalGradientBlocksAreErrors) {
  ASSERT_TRUE(Make({Side::kHost, Side::kDevice, Side::kHost}).ok());
  FillAll();
  ExpectIllegal(store_->MakeGradients(kB), kB, "a gradient block");
  ExpectIllegal(store_->MakeGradients(kFrozen), kFrozen, "a gradient block");
  ExpectIllegal(store_->SendGradients(kA, {}), kA, "sending gradients");
  ASSERT_TRUE(store_->MakeGradients(kA).ok());
  ExpectIllegal(store_->MakeGradients(kA), kA, "a gradient block");
  ASSERT_TRUE(store_->SendGradients(kA, {}).ok());
  ASSERT_TRUE(store_->DropGradients(kA).ok());
  ExpectIllegal(store_->MakeGradients(kA), kA, "a gradient block");
  ASSERT_TRUE(
      store_
          ->RunOnHost(kA, {},
                      [](std::byte*, const StateView&, const ExecContext&) {
                        return absl::OkStatus();
                      })
          .ok());
  ASSERT_TRUE(Fetch(kA).ok());
  AddOnDevice(kA, 1);  // in the payload's place
  ExpectIllegal(store_->MakeGradients(kA), kA, "a gradient block");
  ASSERT_TRUE(CopyBack(kA).ok());
}

// Adds up gradients on the device, over three micro batches, and takes the sum
// home.
TEST_F(ChunkStoreTest, DeviceSumLeavesOnceAndThePayloadForNothing) {
  ASSERT_TRUE(
      Make({Side::kHost, Side::kHost, Side::kHost}, /*accumulate=*/true).ok());
  FillAll();
  const auto add = [&](bool assign) {
    return store_->AddToDeviceSum(
        kA, {}, assign,
        [assign](std::byte* gradients, float* sum, const ExecContext&) {
          const auto* g = reinterpret_cast<const float*>(gradients);
          for (int i = 0; i < 64; ++i) sum[i] = (assign ? 0 : sum[i]) + g[i];
          return absl::OkStatus();
        });
  };
  const auto fill = [&](float x) {
    device_->Wait(StreamId::kCompute, store_->WaitToUsePayload(kA, true), 0);
    store_->NotePayloadUse(
        kA,
        device_->Enqueue(StreamId::kCompute, 0,
                         [x, g = reinterpret_cast<float*>(
                                 store_->gradients(kA))](const ExecContext&) {
                           for (int i = 0; i < 64; ++i) g[i] = x;
                           return absl::OkStatus();
                         }),
        /*writes=*/true);
  };
  for (int step = 0; step < 5; ++step) {
    const bool brought_home = step == 3;
    const int64_t d2h = store_->d2h_bytes();
    ASSERT_TRUE(Fetch(kA).ok());
    for (int m = 0; m < 2; ++m) {
      ASSERT_TRUE(store_->MakeGradients(kA).ok());
      fill(1 + m + step);
      if (m == 0) {
        ExpectIllegal(add(true), kA, "adding to the sum on the device");
        ASSERT_TRUE(store_->MakeSum(kA).ok());
      }
      ExpectIllegal(store_->SendGradients(kA, {}), kA, "sending gradients");
      ExpectIllegal(store_->DropGradients(kA), kA, "dropping gradients");
      ASSERT_TRUE(add(m == 0).ok());
      ExpectIllegal(add(false), kA, "adding to the sum on the device");
      ASSERT_TRUE(store_->DropGradients(kA).ok());
      EXPECT_EQ(Payload(kA), Expected(kA, static_cast<float>(100 * step)));
      EXPECT_EQ(arena_->stats().used[Category::kGradients], 256);
    }
    ExpectIllegal(store_->DropSum(kA), kA, "dropping the sum");
    if (brought_home) {  // and goes on there, were this a step
      ASSERT_TRUE(store_->BringSumHome(kA, {}).ok());
      ASSERT_TRUE(store_->BringSumHome(kA, {}).ok());
      ASSERT_TRUE(store_->Drop(kA).ok());
    } else {
      fill(7);
      EXPECT_TRUE(store_->dirty(kA));
      ASSERT_TRUE(add(false).ok());
      EXPECT_FALSE(store_->dirty(kA));
      EXPECT_TRUE(store_->CheckConsistency().ok());
      ASSERT_TRUE(store_->SendSum(kA, {}).ok());
      ExpectIllegal(store_->SendSum(kA, {}), kA, "sending the sum");
      ExpectIllegal(add(false), kA, "adding to the sum on the device");
      ASSERT_TRUE(store_->Drop(kA).ok());
      ASSERT_TRUE(store_->DropSum(kA).ok());
    }
    EXPECT_EQ(store_->d2h_bytes() - d2h, 256);
    EXPECT_EQ(arena_->stats().used_bytes, 0);
    std::vector<float> sum(64);
    ASSERT_TRUE(store_
                    ->RunOnHost(kA, {},
                                [&](std::byte* home, const StateView& view,
                                    const ExecContext&) {
                                  auto* x = reinterpret_cast<float*>(home);
                                  for (int i = 0; i < 64; ++i) {
                                    sum[i] = view.sum[i];
                                    x[i] += 100;
                                  }
                                  return absl::OkStatus();
                                })
                    .ok());
    ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
    EXPECT_EQ(sum,
              std::vector<float>(64, 3.0f + 2 * step + (brought_home ? 0 : 7)));
    EXPECT_EQ(Home(kA), Expected(kA, static_cast<float>(100 * (step + 1))));
    EXPECT_TRUE(store_->CheckConsistency().ok());
  }
}

TEST_F(ChunkStoreTest, IllegalDeviceSumsAreErrors) {
  ASSERT_TRUE(
      Make({Side::kHost, Side::kDevice, Side::kHost}, /*accumulate=*/true)
          .ok());
  FillAll();
  ExpectIllegal(store_->MakeSum(kB), kB, "a sum on the device");
  ExpectIllegal(store_->MakeSum(kFrozen), kFrozen, "a sum on the device");
  ExpectIllegal(store_->SendSum(kA, {}), kA, "sending the sum");
  ASSERT_TRUE(store_->MakeSum(kA).ok());
  ExpectIllegal(store_->MakeSum(kA), kA, "a sum on the device");
  // There is neither a gradient block nor a payload.
  ExpectIllegal(
      store_->AddToDeviceSum(kA, {}, true,
                             [](std::byte*, float*, const ExecContext&) {
                               return absl::OkStatus();
                             }),
      kA, "adding to the sum on the device");
  store_->ForgetGradients(kA);
  EXPECT_FALSE(store_->has_device_sum(kA));
  EXPECT_EQ(arena_->stats().used[Category::kGradients], 0);
}

TEST_F(ChunkStoreTest, FailureToFillIsHandedOn) {
  ASSERT_TRUE(Make({Side::kHost, Side::kDevice, Side::kHost}).ok());
  for (ChunkId id : {kA, kB}) {
    const absl::Status status =
        store_->Fill(id, [](std::byte*, const StateView&) {
          return absl::DataLossError("no file");
        });
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
}

}  // namespace
}  // namespace castor
