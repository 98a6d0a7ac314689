// Ranks as threads, each with a device, an arena and host memory of its own.
#include "memory/exec/shard_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/with_type.h"
#include "device/comm/testing/communicator_oracle.h"
#include "device/comm/thread_ranks.h"
#include "device/gate.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Sizes that no number of ranks divides: most chunks end with padding, on some
// numbers of ranks whole shards of it. The last one is frozen.
ChunkLayout LayoutOf(DType dtype, int world_size, int rank) {
  auto layout =
      MakeChunkLayout({{.name = "a", .elements = 100},
                       {.name = "b", .elements = 37},
                       {.name = "c", .elements = 450},
                       {.name = "d", .elements = 1},
                       {.name = "f", .elements = 71, .trainable = false}},
                      {.dtype = dtype,
                       .chunk_bytes = 256 * SizeOf(dtype),
                       .world_size = world_size,
                       .rank = rank});
  EXPECT_TRUE(layout.ok()) << layout.status();
  EXPECT_GE(layout->num_chunks(), 3);
  return *std::move(layout);
}

int64_t LargestPayload(const ChunkLayout& layout) {
  int64_t bytes = 0;
  for (int64_t c = 0; c < layout.num_chunks(); ++c) {
    bytes = std::max(bytes, layout.payload_bytes(ChunkId(c)));
  }
  return bytes;
}

// Returns the payload of a chunk that `rank` has in micro batch `batch`; every
// rank can compute it.
Bytes Payload(const ChunkLayout& layout, ChunkId chunk, int rank, int batch) {
  return RandomNumbers(
      layout.dtype, layout.chunk(chunk).elements,
      static_cast<uint32_t>(chunk.value * 1000 + batch * 100 + rank));
}

// A fresh sum is not zero: elements that are not assigned show.
std::vector<float> FreshSum(int64_t n) {
  return std::vector<float>(n, std::numeric_limits<float>::quiet_NaN());
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A rank's world.
struct Rank {
  ChunkLayout layout;
  std::unique_ptr<HostDevice> device;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<HostMemory> host;
  std::unique_ptr<Communicator> ranks;
  std::unique_ptr<ShardExchange> exchange;

  // Returns the staging of a trainer whose chunks are reduced on either side.
  ShardStaging Staging(int64_t slots) const {
    const int64_t largest = LargestPayload(layout);
    return {.slots = slots,
            .slot_bytes = largest,
            .parts_bytes =
                std::max<int64_t>(1, largest - largest / layout.world_size)};
  }
  absl::Status MakeExchange(const ShardStaging& staging) {
    auto made = ShardExchange::Create(device.get(), arena.get(), host.get(),
                                      ranks.get(), &layout, staging);
    if (!made.ok()) return made.status();
    exchange = *std::move(made);
    return absl::OkStatus();
  }

  BlockId NewBlock(ChunkId chunk) {
    auto block = arena->Allocate(layout.payload_bytes(chunk),
                                 Category::kParameters, End::kLow, "payload");
    EXPECT_TRUE(block.ok()) << block.status();
    return *block;
  }
  // Queues bytes [begin, begin + from.size()) of the block; `from` outlives
  // the copy.
  void Write(BlockId block, int64_t begin, const Bytes& from) {
    device->Wait(StreamId::kHostToDevice, arena->WaitToWrite(block), 0);
    arena->NoteWrite(
        block,
        device->Copy(StreamId::kHostToDevice, 0,
                     static_cast<std::byte*>(arena->Pointer(block)) + begin,
                     from.data(), static_cast<int64_t>(from.size())));
  }
  Bytes Read(BlockId block, int64_t bytes) {
    Bytes to(bytes);
    device->Wait(StreamId::kDeviceToHost, arena->WaitToRead(block), 0);
    const Fence read = device->Copy(StreamId::kDeviceToHost, 0, to.data(),
                                    arena->Pointer(block), bytes);
    arena->NoteRead(block, read);
    EXPECT_TRUE(device->Synchronize(read).ok());
    return to;
  }
  // Queues a payload into a slot, and takes it.
  int FillSlot(const Bytes& payload) {
    const int slot = exchange->TakeSlot();
    ShardExchange::Slot& at = exchange->slot(slot);
    device->Wait(StreamId::kDeviceToHost, at.used, 0);
    at.used.Add(device->Copy(StreamId::kDeviceToHost, 0, at.block.data(),
                             payload.data(),
                             static_cast<int64_t>(payload.size())));
    return slot;
  }
};

struct Setting {
  int world_size = 2;
  DType dtype = DType::kFloat32;
  int64_t arena_bytes = 1 << 16;
  int64_t host_bytes = 1 << 20;
};

// Runs `body` on all ranks at once, each with an exchange not made yet.
void RunRanks(const Setting& setting, const std::function<void(Rank&)>& body,
              std::shared_ptr<ThreadGroup> group = nullptr) {
  if (group == nullptr) group = ThreadGroup::Create(setting.world_size);
  std::vector<std::thread> threads;
  for (int r = 0; r < setting.world_size; ++r) {
    threads.emplace_back([&, r] {
      Rank rank;
      rank.layout = LayoutOf(setting.dtype, setting.world_size, r);
      rank.device = *HostDevice::Create({.memory_bytes = setting.arena_bytes});
      rank.arena = *Arena::Create(rank.device.get(), {.scribble_freed = true});
      rank.host = *HostMemory::Create({.budget_bytes = setting.host_bytes});
      rank.ranks = *MakeThreadRank(group, r, rank.device.get(), {});
      body(rank);
      // Nothing may be under way when the blocks go.
      rank.ranks.reset();
      rank.device->Synchronize(rank.device->NowAll()).IgnoreError();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class Exchange : public ::testing::TestWithParam<std::tuple<int, DType>> {
 protected:
  Setting setting() const {
    return {.world_size = std::get<0>(GetParam()),
            .dtype = std::get<1>(GetParam())};
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, Exchange,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(DType::kFloat32,
                                                              DType::kBFloat16,
                                                              DType::kFloat16)),
                         [](const auto& info) {
                           return absl::StrCat(
                               std::get<0>(info.param), "ranks",
                               DTypeName(std::get<1>(info.param)));
                         });

TEST_P(Exchange, GathersWholePayloads) {
  RunRanks(setting(), [](Rank& rank) {
    ASSERT_TRUE(rank.MakeExchange(rank.Staging(2)).ok());
    const ChunkLayout& layout = rank.layout;
    int64_t received = 0;
    for (int64_t c = 0; c < layout.num_chunks(); ++c) {
      const ChunkId chunk(c);
      const Bytes whole = Payload(layout, chunk, 0, 0);
      const int64_t begin = layout.rank * layout.shard_bytes(chunk);
      const Bytes own(whole.begin() + begin,
                      whole.begin() + begin + layout.shard_bytes(chunk));
      const BlockId block = rank.NewBlock(chunk);
      rank.Write(block, begin, own);
      const absl::Status gathered =
          rank.exchange->Gather(chunk, block, {.moment = c});
      ASSERT_TRUE(gathered.ok()) << gathered;
      EXPECT_TRUE(rank.Read(block, layout.payload_bytes(chunk)) == whole);
      rank.arena->Free(block);
      received += layout.payload_bytes(chunk) - layout.shard_bytes(chunk);
    }
    EXPECT_EQ(rank.exchange->received_bytes(), received);
    EXPECT_EQ(rank.ranks->stats().bytes_received, received);
  });
}

// The sum that a plain loop makes over micro batches and ranks, of one shard.
std::vector<float> Oracle(const ChunkLayout& layout, ChunkId chunk,
                          int batches) {
  const int64_t n = layout.shard_elements(chunk);
  const int64_t begin = layout.shard_begin(chunk);
  std::vector<float> sum(n);
  for (int batch = 0; batch < batches; ++batch) {
    for (int r = 0; r < layout.world_size; ++r) {
      const Bytes payload = Payload(layout, chunk, r, batch);
      for (int64_t i = 0; i < n; ++i) {
        const std::byte* const at =
            payload.data() + (begin + i) * SizeOf(layout.dtype);
        const float x = WithType(layout.dtype, [&]<class T>(T value) {
          std::memcpy(&value, at, sizeof(value));
          return static_cast<float>(value);
        });
        sum[i] = batch == 0 && r == 0 ? x : sum[i] + x;
      }
    }
  }
  return sum;
}

constexpr int kBatches = 3;

TEST_P(Exchange, ReducesFromSlotsInTheRanksOrder) {
  RunRanks(setting(), [](Rank& rank) {
    // The fewest slots that do: one with the payload, one for parts.
    ASSERT_TRUE(rank.MakeExchange(rank.Staging(2)).ok());
    const ChunkLayout& layout = rank.layout;
    for (int64_t c = 0; c < layout.num_chunks(); ++c) {
      const ChunkId chunk(c);
      std::vector<float> sum = FreshSum(layout.shard_elements(chunk));
      std::vector<Bytes> payloads;
      for (int batch = 0; batch < kBatches; ++batch) {
        payloads.push_back(Payload(layout, chunk, layout.rank, batch));
      }
      Fence last;
      for (int batch = 0; batch < kBatches; ++batch) {
        const int slot = rank.FillSlot(payloads[batch]);
        const auto done = rank.exchange->ReduceFromSlot(
            chunk, slot, sum.data(), batch == 0, {.moment = batch});
        ASSERT_TRUE(done.ok()) << done.status();
        rank.exchange->GiveSlot(slot);
        last = *done;
      }
      ASSERT_TRUE(rank.device->Synchronize(last).ok());
      EXPECT_TRUE(SameBits(sum, Oracle(layout, chunk, kBatches)));
    }
  });
}

TEST_P(Exchange, ReducesFromBlocksToTheSameBits) {
  RunRanks(setting(), [](Rank& rank) {
    ASSERT_TRUE(rank.MakeExchange(rank.Staging(2)).ok());
    const ChunkLayout& layout = rank.layout;
    int64_t received = 0;
    for (int64_t c = 0; c < layout.num_chunks(); ++c) {
      const ChunkId chunk(c);
      std::vector<float> sum = FreshSum(layout.shard_elements(chunk));
      std::vector<Bytes> payloads;
      for (int batch = 0; batch < kBatches; ++batch) {
        payloads.push_back(Payload(layout, chunk, layout.rank, batch));
      }
      const BlockId block = rank.NewBlock(chunk);
      Fence last;
      // The next batch is written into the same block while the reduce before
      // it may still be reading: the block's fences order them.
      for (int batch = 0; batch < kBatches; ++batch) {
        rank.Write(block, 0, payloads[batch]);
        const auto done = rank.exchange->ReduceFromBlock(
            chunk, block, sum.data(), batch == 0, {.moment = batch});
        ASSERT_TRUE(done.ok()) << done.status();
        last = *done;
        received += layout.payload_bytes(chunk) - layout.shard_bytes(chunk);
      }
      ASSERT_TRUE(rank.device->Synchronize(last).ok());
      EXPECT_TRUE(SameBits(sum, Oracle(layout, chunk, kBatches)));
      rank.arena->Free(block);
    }
    EXPECT_EQ(rank.exchange->received_bytes(), received);
  });
}

TEST(ShardExchange, OperatorsGoOnWhilePartsAreUnderWay) {
  const auto group = ThreadGroup::Create(2);
  Gate late;  // rank 1 comes when rank 0 has computed on
  RunRanks(
      {.world_size = 2},
      [&](Rank& rank) {
        ASSERT_TRUE(rank.MakeExchange(rank.Staging(2)).ok());
        const ChunkLayout& layout = rank.layout;
        std::vector<std::vector<float>> sums;
        std::vector<Bytes> payloads;
        std::vector<BlockId> blocks;
        Fence last;
        if (layout.rank == 1) {
          rank.device->Enqueue(StreamId::kNetwork, 0, late.Hold());
        }
        const Fence computed = rank.device->Now(StreamId::kCompute);
        for (int64_t c = 0; c < 3; ++c) {
          const ChunkId chunk(c);
          payloads.push_back(Payload(layout, chunk, layout.rank, 0));
          sums.push_back(FreshSum(layout.shard_elements(chunk)));
          blocks.push_back(rank.NewBlock(chunk));
        }
        for (int64_t c = 0; c < 3; ++c) {
          rank.Write(blocks[c], 0, payloads[c]);
          const auto done = rank.exchange->ReduceFromBlock(
              ChunkId(c), blocks[c], sums[c].data(), true, {.moment = c});
          ASSERT_TRUE(done.ok()) << done.status();
          last = *done;
        }
        // Nothing is queued that operators would wait for.
        EXPECT_EQ(rank.device->Now(StreamId::kCompute), computed);
        if (layout.rank == 0) {
          EXPECT_FALSE(rank.device->Reached(last));
          late.Open();
        }
        ASSERT_TRUE(rank.device->Synchronize(last).ok());
        for (int64_t c = 0; c < 3; ++c) {
          EXPECT_TRUE(SameBits(sums[c], Oracle(layout, ChunkId(c), 1)));
          rank.arena->Free(blocks[c]);
        }
      },
      group);
}

TEST(ShardExchange, GatherWaitsForTheWriterOfTheOwnShard) {
  RunRanks({.world_size = 2}, [](Rank& rank) {
    ASSERT_TRUE(rank.MakeExchange(rank.Staging(2)).ok());
    const ChunkId chunk(0);
    const Bytes whole = Payload(rank.layout, chunk, 0, 0);
    const int64_t bytes = rank.layout.shard_bytes(chunk);
    const int64_t begin = rank.layout.rank * bytes;
    const Bytes own(whole.begin() + begin, whole.begin() + begin + bytes);
    const BlockId block = rank.NewBlock(chunk);
    Gate gate;
    rank.device->Enqueue(StreamId::kHostToDevice, 0, gate.Hold());
    rank.Write(block, begin, own);
    ASSERT_TRUE(rank.exchange->Gather(chunk, block, {}).ok());
    const Fence gathered = rank.device->Now(StreamId::kNetwork);
    EXPECT_FALSE(rank.device->Reached(gathered));
    gate.Open();
    EXPECT_TRUE(rank.Read(block, 2 * bytes) == whole);
    EXPECT_TRUE(rank.device->Reached(gathered));
  });
}

TEST(ShardExchange, TakesTheSlotThatIsOver) {
  RunRanks({.world_size = 1}, [](Rank& rank) {
    ASSERT_TRUE(rank.MakeExchange(rank.Staging(2)).ok());
    ShardExchange& exchange = *rank.exchange;
    EXPECT_EQ(exchange.TakeSlot(), 0);
    EXPECT_EQ(exchange.TakeSlot(), 1);
    ASSERT_TRUE(exchange.EnsureSlots(3).ok());
    EXPECT_EQ(exchange.TakeSlot(), 2);
    Gate gate;
    exchange.slot(0).used =
        rank.device->Enqueue(StreamId::kHostCompute, 0, gate.Hold());
    exchange.GiveSlot(0);
    exchange.GiveSlot(1);
    EXPECT_EQ(exchange.TakeSlot(), 1);  // 0 is still in use
    EXPECT_EQ(exchange.TakeSlot(), 0);  // but better than none
    gate.Open();
    EXPECT_TRUE(rank.device->Synchronize(rank.device->NowAll()).ok());
  });
}

TEST(ShardExchange, StaysWithinItsStaging) {
  RunRanks({.world_size = 2, .host_bytes = 8 << 10}, [](Rank& rank) {
    const ShardStaging staging = rank.Staging(2);
    ASSERT_TRUE(rank.MakeExchange(staging).ok());
    EXPECT_EQ(rank.host->stats().used_bytes, staging.HostBytes());
    EXPECT_EQ(rank.arena->stats().used_bytes, staging.DeviceBytes());
    // As many as are there already cost nothing.
    EXPECT_TRUE(rank.exchange->EnsureSlots(2).ok());
    EXPECT_EQ(rank.host->stats().used_bytes, staging.HostBytes());
    const absl::Status full = rank.exchange->EnsureSlots(100);
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
    EXPECT_THAT(std::string(full.message()),
                HasSubstr("payloads with gradients"));
    EXPECT_LE(rank.host->stats().used_bytes, 8 << 10);
    // Slots that were made can be given back, and made again.
    rank.exchange->KeepSlots(2);
    EXPECT_EQ(rank.host->stats().used_bytes, staging.HostBytes());
    EXPECT_TRUE(rank.exchange->EnsureSlots(3).ok());
    EXPECT_GT(rank.host->stats().used_bytes, staging.HostBytes());
  });
}

TEST(ShardExchange, WithoutRoomOnTheDeviceIsRefused) {
  RunRanks({.world_size = 2, .arena_bytes = 512}, [](Rank& rank) {
    const absl::Status refused = rank.MakeExchange(rank.Staging(2));
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("other ranks' parts"));
    // Where all sums are on the host, the device holds nothing.
    ShardStaging host_only = rank.Staging(2);
    host_only.parts_bytes = 0;
    EXPECT_TRUE(rank.MakeExchange(host_only).ok());
    EXPECT_EQ(rank.arena->stats().used_bytes, 0);
  });
}

TEST(ShardExchange, DeathOfARankFailsTheOthersWork) {
  const auto group = ThreadGroup::Create(3);
  RunRanks(
      {.world_size = 3},
      [&](Rank& rank) {
        ASSERT_TRUE(rank.MakeExchange(rank.Staging(2)).ok());
        const ChunkId chunk(0);
        const Bytes payload = Payload(rank.layout, chunk, rank.layout.rank, 0);
        std::vector<float> sum = FreshSum(rank.layout.shard_elements(chunk));
        if (rank.layout.rank == 1) {
          group->Kill(1);
          return;
        }
        const int slot = rank.FillSlot(payload);
        const auto done = rank.exchange->ReduceFromSlot(chunk, slot, sum.data(),
                                                        true, {.moment = 9});
        const absl::Status status =
            done.ok() ? rank.device->Synchronize(*done) : done.status();
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
        // Nothing was added to the sum, and nothing later is.
        EXPECT_TRUE(std::isnan(sum[0]));
        const BlockId block = rank.NewBlock(chunk);
        absl::Status later = rank.exchange->Gather(chunk, block, {});
        if (later.ok()) {
          later =
              rank.device->Synchronize(rank.device->Now(StreamId::kNetwork));
        }
        EXPECT_EQ(later.code(), absl::StatusCode::kUnavailable) << later;
        // Queued work reads this scope's payload.
        rank.device->Synchronize(rank.device->NowAll()).IgnoreError();
      },
      group);
}

TEST(ShardExchange, RanksThatExchangeOtherChunksAreToldWhich) {
  StepTrace step;
  for (const char* name :
       {"embed", "norm", "attention", "add", "linear", "gelu", "head"}) {
    step.ops.emplace_back().name = name;
  }
  RunRanks({.world_size = 2}, [&step](Rank& rank) {
    ASSERT_TRUE(rank.MakeExchange(rank.Staging(2)).ok());
    rank.exchange->BeginStep(&step);
    // Both are of one size, so that it is the key that differs.
    const ChunkId chunk(rank.layout.rank == 0 ? 0 : 2);
    ASSERT_EQ(rank.layout.shard_bytes(ChunkId(0)),
              rank.layout.shard_bytes(ChunkId(2)));
    const BlockId block = rank.NewBlock(chunk);
    absl::Status status =
        rank.exchange->Gather(chunk, block, {.moment = 5 + chunk.value});
    if (status.ok()) {
      status = rank.device->Synchronize(rank.device->Now(StreamId::kNetwork));
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("gather chunk 0, moment 5 (gelu)"),
                      HasSubstr("gather chunk 2, moment 7\"")));
  });
}

}  // namespace
}  // namespace castor
