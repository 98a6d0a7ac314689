#include "memory/exec/activation_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "device/host/host_device.h"

namespace castor {
namespace {

constexpr int64_t kPiece = 512;

// Chunk 1 holds the activations of block 7: two tensors of kPiece bytes.
class ActivationStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = *HostDevice::Create({.memory_bytes = 8 * kPiece});
    host_ = *HostMemory::Create({.budget_bytes = 3 * kPiece});
    arena_ = *Arena::Create(device_.get(), {.scribble_freed = true});
    store_ = std::make_unique<ActivationStore>(device_.get(), arena_.get(),
                                               host_.get());
    trace_.chunks.resize(2);
    trace_.chunks[1].payload_bytes = 2 * kPiece;
    trace_.chunks[1].block = 7;
    trace_.chunks[1].pieces = 2;
    store_->BeginStep(trace_);
    EXPECT_TRUE(store_->NeedsHomes());
    ASSERT_TRUE(store_->MakeHomes().ok());
    EXPECT_FALSE(store_->NeedsHomes());
    EXPECT_EQ(store_->ChunkOfBlock(7), id_);
    EXPECT_FALSE(store_->ChunkOfBlock(0).valid());
  }
  void TearDown() override {
    EXPECT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  }

  // A tensor that holds `value` throughout.
  int64_t Make(uint8_t value) {
    const BlockId block =
        *arena_->Allocate(kPiece, Category::kActivations, End::kHigh, "test");
    device_->Wait(StreamId::kCompute, arena_->WaitToWrite(block), 0);
    arena_->NoteWrite(
        block, device_->Fill(StreamId::kCompute, 0, arena_->Pointer(block),
                             value, kPiece));
    return block.value;
  }
  bool Holds(int64_t storage, uint8_t value) {
    const BlockId block = store_->PlaceOf(storage);
    std::vector<uint8_t> bytes(kPiece);
    device_->Wait(StreamId::kCompute, arena_->WaitToRead(block), 0);
    const Fence done = device_->Copy(StreamId::kCompute, 0, bytes.data(),
                                     arena_->Pointer(block), kPiece);
    arena_->NoteRead(block, done);
    EXPECT_TRUE(device_->Synchronize(done).ok());
    return std::all_of(bytes.begin(), bytes.end(),
                       [&](uint8_t byte) { return byte == value; });
  }
  void ExpectIllegal(const absl::Status& status) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  }

  const ChunkId id_ = ChunkId(1);
  StepTrace trace_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<HostMemory> host_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ActivationStore> store_;
};

TEST_F(ActivationStoreTest, BringsTensorsToTheHostAndBack) {
  for (uint8_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
    const int64_t a = Make(10 + micro_batch), b = Make(20 + micro_batch);
    const int64_t other = Make(3);  // that stays
    ASSERT_TRUE(store_->Offer(id_, {a, b}).ok());
    EXPECT_EQ(store_->taken_bytes(), 0);
    ASSERT_TRUE(store_->Fetch(id_, {}).ok());
    EXPECT_EQ(store_->taken_bytes(), 2 * kPiece);
    EXPECT_TRUE(Holds(a, 10 + micro_batch));
    ASSERT_TRUE(store_->CopyBack(id_, {}).ok());
    ASSERT_TRUE(store_->Drop(id_).ok());
    EXPECT_EQ(arena_->stats().used_bytes, kPiece);
    EXPECT_FALSE(store_->PlaceOf(a).valid());
    // Others take their room.
    std::vector<int64_t> taken;
    for (int i = 0; i < 5; ++i) taken.push_back(Make(99));
    for (const int64_t block : taken) store_->Release(block);
    ASSERT_TRUE(store_->Fetch(id_, {}).ok());
    EXPECT_TRUE(store_->WaitToUse(id_).ok());
    EXPECT_TRUE(Holds(a, 10 + micro_batch));
    EXPECT_TRUE(Holds(b, 20 + micro_batch));
    EXPECT_TRUE(Holds(other, 3));
    ASSERT_TRUE(store_->Used(id_).ok());
    store_->Release(a);
    EXPECT_EQ(store_->taken_bytes(), kPiece);
    ASSERT_TRUE(store_->Drop(id_).ok());
    EXPECT_EQ(store_->taken_bytes(), 0);
    EXPECT_TRUE(Holds(b, 20 + micro_batch));  // an operator's again
    store_->Release(b);
    store_->Release(other);
    EXPECT_EQ(arena_->stats().used_bytes, 0);
  }
  EXPECT_EQ(store_->h2d_bytes(), 3 * 2 * kPiece);
  EXPECT_EQ(store_->d2h_bytes(), 3 * 2 * kPiece);
}

TEST_F(ActivationStoreTest, BringsTensorsBackToThePlacesThatAreGiven) {
  const int64_t a = Make(1), b = Make(2);
  ASSERT_TRUE(store_->Offer(id_, {a, b}).ok());
  ASSERT_TRUE(store_->Fetch(id_, {}, [] { return 0; }).ok());  // takes none
  EXPECT_EQ(arena_->stats().placed_as_planned, 0);
  ASSERT_TRUE(store_->CopyBack(id_, {}).ok());
  ASSERT_TRUE(store_->Drop(id_).ok());
  int64_t next = 5 * kPiece;
  ASSERT_TRUE(store_->Fetch(id_, {}, [&] { return next -= 2 * kPiece; }).ok());
  EXPECT_EQ(arena_->Offset(store_->PlaceOf(a)), 3 * kPiece);
  EXPECT_EQ(arena_->Offset(store_->PlaceOf(b)), 1 * kPiece);
  EXPECT_EQ(arena_->stats().placed_as_planned, 2);
  EXPECT_EQ(arena_->stats().misplaced, 0);
  EXPECT_TRUE(Holds(a, 1));
  EXPECT_TRUE(Holds(b, 2));
  ASSERT_TRUE(store_->Used(id_).ok());
  ASSERT_TRUE(store_->Drop(id_).ok());
  store_->Release(a);
  store_->Release(b);
}

TEST_F(ActivationStoreTest, RefusesWhatItsTableDoesNotHave) {
  ExpectIllegal(store_->Fetch(id_, {}));
  ExpectIllegal(store_->CopyBack(id_, {}));
  ExpectIllegal(store_->Drop(id_));
  ExpectIllegal(store_->Used(id_));
  const int64_t a = Make(1), b = Make(2);
  EXPECT_TRUE(absl::IsInternal(store_->Offer(id_, {a})));
  ASSERT_TRUE(store_->Offer(id_, {a, b}).ok());
  ExpectIllegal(store_->Offer(id_, {a, b}));
  ExpectIllegal(store_->CopyBack(id_, {}));
  ASSERT_TRUE(store_->Fetch(id_, {}).ok());
  ExpectIllegal(store_->Fetch(id_, {}));
  ExpectIllegal(store_->Drop(id_));  // dirty
  ASSERT_TRUE(store_->CopyBack(id_, {}).ok());
  ASSERT_TRUE(store_->Drop(id_).ok());
  ExpectIllegal(store_->Drop(id_));
  ExpectIllegal(store_->Used(id_));
  ExpectIllegal(store_->WaitToUse(id_).status());
  // Tensors may go while they are away, as when a step is given up.
  store_->Release(a);
  EXPECT_EQ(store_->taken_bytes(), kPiece);
  ASSERT_TRUE(store_->Fetch(id_, {}).ok());
  EXPECT_TRUE(Holds(b, 2));
  EXPECT_EQ(arena_->stats().used_bytes, kPiece);
  store_->BeginStep(trace_);
  EXPECT_EQ(store_->taken_bytes(), 0);
  ExpectIllegal(store_->Drop(id_));
  store_->Release(b);
  EXPECT_EQ(arena_->stats().used_bytes, 0);
}

TEST_F(ActivationStoreTest, HomesAreThoseOfTheStepsAndCount) {
  EXPECT_EQ(host_->stats().used[Category::kActivations], 2 * kPiece);
  StepTrace evaluation;
  evaluation.training = false;
  store_->BeginStep(evaluation);
  EXPECT_FALSE(store_->NeedsHomes());
  trace_.chunks[1].payload_bytes = 4 * kPiece;
  store_->BeginStep(trace_);
  EXPECT_TRUE(absl::IsResourceExhausted(store_->MakeHomes()));
  trace_.chunks.resize(1);
  store_->BeginStep(trace_);
  ASSERT_TRUE(store_->MakeHomes().ok());
  EXPECT_EQ(host_->stats().used_bytes, 0);
}

}  // namespace
}  // namespace castor
