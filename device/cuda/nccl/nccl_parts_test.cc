// Collectives of GPUs over NCCL, with GPUs and an NCCL that are made of
// threads: what is moved, what is not, and how it ends when a rank does.
#include "device/cuda/nccl/nccl_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/with_type.h"
#include "device/comm/agreement.h"
#include "device/comm/exchange_communicator.h"
#include "device/comm/ordered_sum.h"
#include "device/comm/rank_group.h"
#include "device/comm/testing/communicator_oracle.h"
#include "device/comm/thread_ranks.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/fake_api.h"
#include "device/cuda/nccl/fake_nccl.h"
#include "device/cuda/nccl/join_gpus.h"

namespace castor {
namespace {

using testing::HasSubstr;

constexpr int64_t kLimitNs = 60'000'000'000;

absl::Status AddOnFake(const ExecContext& context, DType dtype, int64_t n,
                       const void* part, float* sum, bool assign) {
  cuda::FakeApi::Launch(context.gpu->stream, [=] {
    ThreadPool pool(1);
    AddInOrder(&pool, dtype, n, {part}, sum, assign);
  });
  return absl::OkStatus();
}

// The objects that all ranks share.
struct World {
  explicit World(int size)
      : world_size(size), threads(ThreadGroup::Create(size)) {
    id = *nccl.NewId();
  }
  const int world_size;
  nccl::FakeNccl nccl;
  std::shared_ptr<ThreadGroup> threads;
  std::string id;
};

// A rank with a GPU of its own.
class GpuRank {
 public:
  GpuRank(World& world, int rank, int64_t time_limit_ns = kLimitNs)
      : api_({.jitter_ns = 300'000}) {
    auto device = CudaDevice::Create(&api_, {.memory_bytes = 8 << 20});
    EXPECT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    auto parts = nccl::NcclParts::Join(&world.nccl, &api_,
                                       {.rank = rank,
                                        .world_size = world.world_size,
                                        .id = world.id,
                                        .add = AddOnFake},
                                       [] { return absl::OkStatus(); });
    EXPECT_TRUE(parts.ok()) << parts.status();
    auto communicator = ExchangeCommunicator::Create(
        device_.get(), world.threads->NewTransport(rank),
        {.time_limit_ns = time_limit_ns}, *std::move(parts));
    EXPECT_TRUE(communicator.ok()) << communicator.status();
    communicator_ = *std::move(communicator);
  }
  Communicator& ranks() { return *communicator_; }
  Device& device() { return *device_; }

  // Room on the device, filled with `content` in the order of kNetwork.
  std::byte* Put(Bytes bytes) {
    const Bytes& content = contents_.emplace_back(std::move(bytes));
    std::byte* const at = device_->memory() + used_;
    used_ += (static_cast<int64_t>(content.size()) + 63) / 64 * 64;
    EXPECT_LE(used_, device_->memory_bytes());
    device_->Copy(StreamId::kNetwork, 0, at, content.data(),
                  static_cast<int64_t>(content.size()));
    return at;
  }
  Bytes Get(const void* at, int64_t bytes) {
    Bytes content(bytes);
    for (StreamId stream : {StreamId::kCompute, StreamId::kNetwork}) {
      device_->Wait(StreamId::kDeviceToHost, device_->Now(stream), 0);
    }
    const absl::Status status = device_->Synchronize(
        device_->Copy(StreamId::kDeviceToHost, 0, content.data(), at, bytes));
    EXPECT_TRUE(status.ok()) << status;
    return content;
  }

 private:
  std::deque<Bytes> contents_;  // outlive the device, which copies them
  cuda::FakeApi api_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Communicator> communicator_;
  int64_t used_ = 0;
};

void OnRanks(World& world, const std::function<void(GpuRank&, int)>& body,
             int64_t time_limit_ns = kLimitNs) {
  std::vector<std::thread> threads;
  for (int r = 0; r < world.world_size; ++r) {
    threads.emplace_back([&, r] {
      GpuRank rank(world, r, time_limit_ns);
      body(rank, r);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(world.nccl.live_groups(), 0);
}

// Holds a stream of the GPU itself, not the thread that launches.
Work HoldGpu(std::atomic<bool>& open) {
  return [&open](const ExecContext& context) {
    cuda::FakeApi::Launch(context.gpu->stream, [&open] {
      while (!open.load()) std::this_thread::yield();
    });
    return absl::OkStatus();
  };
}

TEST(NcclParts, GathersFromDeviceToDevice) {
  for (int world_size : {1, 2, 4}) {
    World world(world_size);
    OnRanks(world, [&](GpuRank& rank, int me) {
      const int64_t n = world_size;
      for (const int64_t bytes : {1, 7, 4096, 100'003}) {
        const auto part_of = [&](int r) {
          return RandomBytes(bytes, static_cast<uint32_t>(bytes * 10 + r));
        };
        Bytes expected;
        for (int r = 0; r < n; ++r) Append(part_of(r), &expected);
        // The part comes from its own place, then from elsewhere.
        Bytes before(n * bytes);
        std::memcpy(before.data() + me * bytes, part_of(me).data(), bytes);
        std::byte* const in_place = rank.Put(before);
        std::byte* const from = rank.Put(part_of(me));
        std::byte* const to = rank.Put(Bytes(n * bytes));
        ASSERT_TRUE(rank.ranks()
                        .AllGather("in place", 0, in_place + me * bytes,
                                   in_place, bytes)
                        .ok());
        ASSERT_TRUE(
            rank.ranks().AllGather("elsewhere", 0, from, to, bytes).ok());
        EXPECT_EQ(rank.Get(in_place, n * bytes), expected);
        EXPECT_EQ(rank.Get(to, n * bytes), expected);
      }
    });
  }
}

TEST(NcclParts, ExchangesPartsOfEverySize) {
  World world(3);
  OnRanks(world, [&](GpuRank& rank, int me) {
    const auto size = [](int from, int to) -> int64_t {
      return from == to ? 33 : 1000 * from + 10 * to;  // 0 to 1: 10, 0 to 0...
    };
    const auto part = [&](int from, int to) {
      return RandomBytes(from == 1 && to == 2 ? 0 : size(from, to),
                         from * 3 + to);
    };
    Bytes send, expected;
    std::vector<int64_t> send_bytes, recv_bytes;
    for (int p = 0; p < 3; ++p) {
      Append(part(me, p), &send);
      Append(part(p, me), &expected);
      send_bytes.push_back(part(me, p).size());
      recv_bytes.push_back(part(p, me).size());
    }
    std::byte* const from = rank.Put(send);
    std::byte* const to = rank.Put(Bytes(expected.size()));
    ASSERT_TRUE(rank.ranks()
                    .AllToAll("parts", 0, from, send_bytes, to, recv_bytes)
                    .ok());
    EXPECT_EQ(rank.Get(to, expected.size()), expected);
  });
}

TEST(NcclParts, SumsInTheOrderOfRanksOnTheDevice) {
  World world(4);
  OnRanks(world, [&](GpuRank& rank, int me) {
    for (DType dtype : kAllTypes) {
      const int64_t n = 5001;
      const auto part = [&](int step, int from, int owner) {
        return RandomNumbers(dtype, n, step * 100 + from * 10 + owner);
      };
      std::vector<float> expected(n);
      std::byte* const sum = rank.Put(Bytes(n * sizeof(float)));
      std::byte* const scratch =
          rank.Put(Bytes(Communicator::PartsBytes(world.world_size, dtype, n)));
      for (int step = 0; step < 3; ++step) {
        Bytes send;
        for (int owner = 0; owner < 4; ++owner) {
          Append(part(step, me, owner), &send);
          OracleAdd(dtype, part(step, owner, me), step == 0 && owner == 0,
                    &expected);
        }
        // The last sum keeps the scratch until it is over.
        rank.device().Wait(StreamId::kNetwork,
                           rank.device().Now(StreamId::kCompute), 0);
        ASSERT_TRUE(rank.ranks()
                        .ReduceScatter("gradients", 0, dtype, rank.Put(send),
                                       scratch, reinterpret_cast<float*>(sum),
                                       n, step == 0, StreamId::kCompute)
                        .ok());
      }
      const Bytes got = rank.Get(sum, n * sizeof(float));
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0);
    }
  });
}

TEST(NcclParts, MovesWhatTheStatisticsSayAndNoHostMemory) {
  World world(3);
  std::atomic<int64_t> received{0};
  OnRanks(world, [&](GpuRank& rank, int me) {
    // The host's go over the transport, each in its turn.
    RunRandomSequence(7, 40, rank.ranks());
    rank.ranks().Barrier("the host's are over", 0).IgnoreError();
    EXPECT_TRUE(rank.device().Synchronize(rank.device().NowAll()).ok());
    EXPECT_EQ(world.nccl.moved_bytes(), 0);
    auto there = rank.ranks().Barrier("nothing moved so far", 0);
    ASSERT_TRUE(there.ok() && rank.device().Synchronize(*there).ok());
    const int64_t before = rank.ranks().stats().bytes_received;
    std::byte* const all = rank.Put(Bytes(3 * 5000));
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(
          rank.ranks().AllGather("again", 0, all + me * 5000, all, 5000).ok());
    }
    ASSERT_TRUE(rank.device().Synchronize(rank.device().NowAll()).ok());
    received += rank.ranks().stats().bytes_received - before;
  });
  EXPECT_EQ(received.load(), 3 * 20 * 2 * 5000);
  EXPECT_EQ(world.nccl.moved_bytes(), received.load());
}

TEST(NcclParts, HostMemoryIsReadInItsTurn) {
  // The bytes to send come from a GPU that takes long to copy them.
  World world(2);
  OnRanks(world, [&](GpuRank& rank, int me) {
    constexpr int64_t kBytes = 999;
    struct Free {
      void operator()(std::byte* memory) const { std::free(memory); }
    };
    const std::unique_ptr<std::byte, Free> all(
        static_cast<std::byte*>(std::aligned_alloc(4096, 4096)));
    std::memset(all.get(), 0, 4096);
    // The memory is pinned, so that only threads that must wait for the copy
    // do.
    ASSERT_TRUE(rank.device().host_pinner()->PinHost(all.get(), 4096).ok());
    std::byte* const on_gpu = rank.Put(RandomBytes(kBytes, me));
    std::atomic<bool> open{false};
    rank.device().Wait(StreamId::kDeviceToHost,
                       rank.device().Now(StreamId::kNetwork), 0);
    rank.device().Enqueue(StreamId::kDeviceToHost, 0, HoldGpu(open));
    const Fence copied = rank.device().Copy(
        StreamId::kDeviceToHost, 0, all.get() + me * kBytes, on_gpu, kBytes);
    rank.device().Wait(StreamId::kNetwork, copied, 0);
    const auto done = rank.ranks().AllGather(
        "from the GPU", 0, all.get() + me * kBytes, all.get(), kBytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    open.store(true);
    ASSERT_TRUE(done.ok() && rank.device().Synchronize(*done).ok());
    for (int r = 0; r < 2; ++r) {
      EXPECT_EQ(Bytes(all.get() + r * kBytes, all.get() + (r + 1) * kBytes),
                RandomBytes(kBytes, r));
    }
    rank.device().host_pinner()->UnpinHost(all.get());
  });
}

TEST(NcclParts, RefusesBuffersThatLieInTwoMemories) {
  World world(2);
  OnRanks(world, [&](GpuRank& rank, int) {
    Bytes host(2 * 64);
    std::byte* const on_gpu = rank.Put(Bytes(64));
    EXPECT_THAT(
        std::string(
            Await(rank.ranks(),
                  rank.ranks().AllGather("mixed", 0, on_gpu, host.data(), 64))
                .message()),
        HasSubstr("one buffer is in the GPU's memory, the other is not"));
  });
}

TEST(NcclParts, MovesNothingWhereRanksCallDifferentCollectives) {
  World world(3);
  OnRanks(world, [&](GpuRank& rank, int me) {
    std::byte* const all = rank.Put(Bytes(3 * 64));
    EXPECT_EQ(
        Await(rank.ranks(), rank.ranks().AllGather(me == 1 ? "b" : "a", 0,
                                                   all + me * 64, all, 64))
            .code(),
        absl::StatusCode::kFailedPrecondition);
  });
  EXPECT_EQ(world.nccl.moved_bytes(), 0);
}

// One rank's GPU does not come to a gather that all have launched; `then` is
// what happens to that rank. The others end, with that reason.
void StopOneGpu(World& world, int64_t time_limit_ns,
                const std::function<void()>& then, const std::string& reason) {
  std::atomic<bool> open{false};
  std::atomic<int> waiting{world.world_size};
  OnRanks(
      world,
      [&](GpuRank& rank, int me) {
        std::byte* const all = rank.Put(Bytes(world.world_size * 64));
        if (me == 0) {
          rank.device().Enqueue(StreamId::kCompute, 0, HoldGpu(open));
          rank.device().Wait(StreamId::kNetwork,
                             rank.device().Now(StreamId::kCompute), 0);
        }
        const auto done =
            rank.ranks().AllGather("stuck", 0, all + me * 64, all, 64);
        ASSERT_TRUE(done.ok());
        --waiting;
        if (me == 0) {
          while (waiting.load() > 0) std::this_thread::yield();
          then();
          while (waiting.load() > 1 - world.world_size) {
            std::this_thread::yield();
          }
          open.store(true);
        } else {
          // The GPU is let go; the group knows that the gather failed.
          rank.device().Synchronize(*done).IgnoreError();
          EXPECT_THAT(std::string(rank.ranks().failure().message()),
                      HasSubstr(reason));
          EXPECT_FALSE(rank.ranks().AllGather("next", 0, all, all, 0).ok());
          --waiting;
        }
      },
      time_limit_ns);
}

TEST(NcclParts, DeathOfARankFreesTheOthersGpus) {
  World world(3);
  StopOneGpu(
      world, kLimitNs, [&] { world.threads->Kill(0); }, "rank 0");
}

TEST(NcclParts, GpuThatDoesNotComeIsToldAfterTheTimeLimit) {
  World world(3);
  StopOneGpu(
      world, 300'000'000, [] {}, "did not get from GPU to GPU within");
}

TEST(NcclParts, FailureInsideNcclEndsAllRanks) {
  World world(3);
  StopOneGpu(
      world, kLimitNs, [&] { world.nccl.BreakNetwork(); },
      "unhandled system error");
}

// Two ranks' parts, of which one alone comes to a move; whatever NCCL does
// about it, `end` does.
void MoveAlone(int64_t time_limit_ns,
               const std::function<void(DeviceParts&)>& end,
               const std::string& reason) {
  cuda::FakeApi api;
  nccl::FakeNccl nccl(/*moves_meet=*/true);
  const std::string id = *nccl.NewId();
  std::unique_ptr<DeviceParts> parts[2];
  const auto join = [&](int rank) {
    parts[rank] = *nccl::NcclParts::Join(
        &nccl, &api,
        {.rank = rank, .world_size = 2, .id = id, .add = AddOnFake},
        [] { return absl::OkStatus(); });
  };
  std::thread other(join, 1);
  join(0);
  other.join();
  std::atomic<int> announced{0};
  EXPECT_TRUE(parts[0]
                  ->Watch([] { return absl::OkStatus(); },
                          [&](const absl::Status&) { ++announced; },
                          time_limit_ns)
                  .ok());
  const cuda::Api::Stream stream = *api.CreateStream(false);
  std::byte data[8];
  absl::Status moved;
  std::thread mover([&] {
    GpuContext gpu;
    gpu.stream = stream;
    const DeviceParts::Part part = {.peer = 1, .data = data, .bytes = 8};
    moved = parts[0]->Move({.gpu = &gpu}, {part}, {});
  });
  end(*parts[0]);
  mover.join();
  EXPECT_THAT(std::string(moved.message()), HasSubstr(reason));
  api.DestroyStream(stream);  // all that was queued is over
  parts[0].reset();
  parts[1].reset();
}

TEST(NcclParts, AbortFreesALaunchThatWaitsInsideNccl) {
  MoveAlone(
      kLimitNs,
      [](DeviceParts& parts) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        parts.Abort();
      },
      "given up");
}

TEST(NcclParts, LaunchThatWaitsInsideNcclEndsAtTheTimeLimit) {
  MoveAlone(
      100'000'000, [](DeviceParts&) {}, "did not get from GPU to GPU");
}

void OnGroups(int world_size, const std::function<void(RankGroup&)>& body) {
  const auto threads = ThreadGroup::Create(world_size);
  std::vector<std::thread> ranks;
  for (int r = 0; r < world_size; ++r) {
    ranks.emplace_back([&, r] {
      RankGroup group(threads->NewTransport(r), {.time_limit_ns = kLimitNs});
      body(group);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(JoinGpus, JoinsOneOfEachRank) {
  nccl::FakeNccl nccl;
  OnGroups(3, [&](RankGroup& group) {
    cuda::FakeApi api({.devices = 3});
    const auto parts =
        nccl::JoinGpus(group, &nccl, &api, group.rank(), AddOnFake);
    EXPECT_TRUE(parts.ok()) << parts.status();
  });
}

TEST(JoinGpus, RefusesTwoRanksOnOneGpu) {
  nccl::FakeNccl nccl;
  OnGroups(3, [&](RankGroup& group) {
    cuda::FakeApi api({.devices = 2});
    const auto parts =
        nccl::JoinGpus(group, &nccl, &api, group.rank() % 2, AddOnFake);
    EXPECT_EQ(parts.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(parts.status().message()),
                HasSubstr("ranks 0 and 2 would share one fake GPU"));
  });
}

TEST(JoinGpus, TellsAllRanksWhereOneHasNoNccl) {
  nccl::FakeNccl nccl;
  OnGroups(2, [&](RankGroup& group) {
    cuda::FakeApi api({.devices = 2});
    absl::StatusOr<nccl::Api*> own = &nccl;
    if (group.rank() == 1) own = absl::FailedPreconditionError("no NCCL here");
    EXPECT_EQ(
        nccl::JoinGpus(group, own, &api, group.rank(), AddOnFake).status(),
        absl::FailedPreconditionError("rank 1: no NCCL here"));
  });
}

TEST(NcclParts, WhoWaitsForRanksThatNeverComeGivesUp) {
  World world(2);
  cuda::FakeApi api;
  const auto alone = nccl::NcclParts::Join(
      &world.nccl, &api,
      {.rank = 0, .world_size = 2, .id = world.id, .add = AddOnFake},
      [] { return absl::UnavailableError("rank 1 died"); });
  EXPECT_EQ(alone.status(), absl::UnavailableError("rank 1 died"));
}

}  // namespace
}  // namespace castor
