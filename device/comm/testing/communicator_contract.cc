#include "device/comm/testing/communicator_contract.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/sanitizers.h"
#include "base/with_type.h"
#include "device/comm/testing/communicator_oracle.h"
#include "device/gate.h"

namespace castor {
namespace {

constexpr int64_t kSizes[] = {0, 1, 7, 4096, (int64_t{1} << 20) + 3};

// Returns true if the call was taken and the work that it queued ended well.
bool Done(Communicator& comm, const absl::StatusOr<Fence>& fence) {
  EXPECT_TRUE(fence.ok()) << fence.status();
  if (!fence.ok()) return false;
  const absl::Status status = comm.device().Synchronize(*fence);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok();
}

class Recorder : public CommunicatorObserver {
 public:
  void OnCollective(const CollectiveRecord& record) override {
    std::lock_guard<std::mutex> lock(mutex_);
    records_.push_back(record);
  }
  std::vector<CollectiveRecord> Take() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(records_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<CollectiveRecord> records_;
};

TEST_P(CommunicatorContract, RanksAreNumberedFromZero) {
  Run([this](Communicator& comm) {
    EXPECT_EQ(comm.world_size(), group_->world_size());
    EXPECT_GE(comm.rank(), 0);
    EXPECT_LT(comm.rank(), comm.world_size());
    // No two alike: everybody's number, from everybody.
    std::vector<int64_t> seen(comm.world_size(), 0);
    seen[comm.rank()] = 1;
    ASSERT_TRUE(Done(comm, comm.AllReduce("ranks", 0, ReduceOp::kSum,
                                          absl::MakeSpan(seen))));
    EXPECT_EQ(seen, std::vector<int64_t>(comm.world_size(), 1));
  });
}

TEST_P(CommunicatorContract, AllGatherGivesEveryRankAllParts) {
  Run([](Communicator& comm) {
    for (const int64_t bytes : kSizes) {
      const Bytes send = RandomBytes(bytes, comm.rank());
      Bytes recv(comm.world_size() * bytes);
      ASSERT_TRUE(Done(
          comm, comm.AllGather("gather", 1, send.data(), recv.data(), bytes)));
      Bytes expected;
      for (int p = 0; p < comm.world_size(); ++p) {
        Append(RandomBytes(bytes, p), &expected);
      }
      EXPECT_EQ(recv, expected);
    }
  });
}

TEST_P(CommunicatorContract, AllGatherWorksInPlace) {
  Run([](Communicator& comm) {
    constexpr int64_t kBytes = 100'003;
    Bytes all(comm.world_size() * kBytes), expected;
    const Bytes mine = RandomBytes(kBytes, comm.rank());
    std::byte* const place = all.data() + comm.rank() * kBytes;
    std::memcpy(place, mine.data(), kBytes);
    ASSERT_TRUE(
        Done(comm, comm.AllGather("gather", 1, place, all.data(), kBytes)));
    for (int p = 0; p < comm.world_size(); ++p) {
      Append(RandomBytes(kBytes, p), &expected);
    }
    EXPECT_EQ(all, expected);
  });
}

TEST_P(CommunicatorContract, ReachesMemoryOfTheDevice) {
  Run([](Communicator& comm) {
    const int64_t bytes = comm.device().memory_bytes() / 8;
    ASSERT_GT(bytes, 0);
    ASSERT_LE(comm.world_size() + 1, 8);
    std::byte* const memory = comm.device().memory();
    const Bytes mine = RandomBytes(bytes, comm.rank());
    Bytes all(comm.world_size() * bytes), expected;
    const Fence up = comm.device().Copy(StreamId::kHostToDevice, 0, memory,
                                        mine.data(), bytes);
    comm.device().Wait(StreamId::kNetwork, up, 0);
    const absl::StatusOr<Fence> gathered =
        comm.AllGather("gather", 1, memory, memory + bytes, bytes);
    ASSERT_TRUE(gathered.ok());
    comm.device().Wait(StreamId::kDeviceToHost, *gathered, 0);
    ASSERT_TRUE(
        Done(comm, comm.device().Copy(StreamId::kDeviceToHost, 0, all.data(),
                                      memory + bytes, all.size())));
    for (int p = 0; p < comm.world_size(); ++p) {
      Append(RandomBytes(bytes, p), &expected);
    }
    EXPECT_EQ(all, expected);
  });
}

TEST_P(CommunicatorContract, AllToAllTurnsRowsIntoColumns) {
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    for (const int64_t bytes : kSizes) {
      Bytes send, expected, recv(n * bytes);
      for (int p = 0; p < n; ++p) {
        Append(RandomBytes(bytes, comm.rank() * n + p), &send);
        Append(RandomBytes(bytes, p * n + comm.rank()), &expected);
      }
      ASSERT_TRUE(Done(
          comm, comm.AllToAll("turn", 2, send.data(), recv.data(), bytes)));
      EXPECT_EQ(recv, expected);
    }
  });
}

TEST_P(CommunicatorContract, AllToAllTakesASizeForEachPair) {
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    // Some pairs have nothing for each other.
    const auto size = [n](int from, int to) {
      return (from * 7 + to * 3) % 4 == 0 ? 0 : 1000 * from + 37 * to + n;
    };
    Bytes send, expected;
    std::vector<int64_t> send_bytes, recv_bytes;
    for (int p = 0; p < n; ++p) {
      send_bytes.push_back(size(comm.rank(), p));
      recv_bytes.push_back(size(p, comm.rank()));
      Append(RandomBytes(send_bytes[p], comm.rank() * n + p), &send);
      Append(RandomBytes(recv_bytes[p], p * n + comm.rank()), &expected);
    }
    Bytes recv(expected.size());
    ASSERT_TRUE(Done(comm, comm.AllToAll("turn", 2, send.data(), send_bytes,
                                         recv.data(), recv_bytes)));
    EXPECT_EQ(recv, expected);
  });
}

// Twelve micro batches, dealt to the ranks step by step. The oracle adds them
// one after the other, as one rank would: every world size that divides twelve
// must give its bits.
TEST_P(CommunicatorContract, OrderedSumDoesNotDependOnTheWorldSize) {
  constexpr int kMicroBatches = 12;
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    ASSERT_EQ(kMicroBatches % n, 0);
    for (const DType dtype : kAllTypes) {
      for (const int64_t shard : {1, 64, 4'099, SanitizedCases(70'000)}) {
        const int64_t elements = shard * n;
        std::vector<float> expected(elements);
        for (int k = 0; k < kMicroBatches; ++k) {
          OracleAdd(dtype, RandomNumbers(dtype, elements, k), k == 0,
                    &expected);
        }
        std::vector<float> sum(shard, -1.0f);
        Bytes parts(Communicator::PartsBytes(n, dtype, shard));
        for (int step = 0; step < kMicroBatches / n; ++step) {
          const Bytes gradient =
              RandomNumbers(dtype, elements, step * n + comm.rank());
          ASSERT_TRUE(
              Done(comm, comm.ReduceScatter("reduce", 3, dtype, gradient.data(),
                                            parts.data(), sum.data(), shard,
                                            /*assign=*/step == 0,
                                            StreamId::kHostCompute)));
        }
        EXPECT_EQ(std::memcmp(sum.data(), expected.data() + comm.rank() * shard,
                              shard * sizeof(float)),
                  0)
            << DTypeName(dtype) << ", " << shard << " elements";
      }
    }
  });
}

TEST_P(CommunicatorContract, ReduceScatterAddsToWhatIsThere) {
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    // 2^24 + 1 + 1 ... in fp32: each 1 is lost when it is added alone. Added to
    // each other first, they would not be.
    const float big = 16'777'216.0f;
    const std::vector<float> ones(n, 1.0f);
    float sum = big;
    Bytes parts(Communicator::PartsBytes(n, DType::kFloat32, 1));
    ASSERT_TRUE(
        Done(comm, comm.ReduceScatter("reduce", 3, DType::kFloat32, ones.data(),
                                      parts.data(), &sum, 1, /*assign=*/false,
                                      StreamId::kCompute)));
    EXPECT_EQ(sum, big);
  });
}

TEST_P(CommunicatorContract, ReduceScatterSumsAfterTheStreamGivenIsFree) {
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    const std::vector<float> values(n, 2.0f);
    float sum = 0;
    Bytes parts(Communicator::PartsBytes(n, DType::kFloat32, 1));
    Gate gate;
    comm.device().Enqueue(StreamId::kHostCompute, 0, gate.Hold());
    const absl::StatusOr<Fence> fence =
        comm.ReduceScatter("reduce", 3, DType::kFloat32, values.data(),
                           parts.data(), &sum, 1, true, StreamId::kHostCompute);
    ASSERT_TRUE(fence.ok());
    // The network goes on: the sum waits for its stream, not the parts.
    EXPECT_TRUE(Done(comm, comm.Barrier("after", 0)));
    EXPECT_FALSE(comm.device().Reached(*fence));
    gate.Open();
    ASSERT_TRUE(Done(comm, fence));
    EXPECT_EQ(sum, 2.0f * n);
  });
}

TEST_P(CommunicatorContract, AllReduceOfIntegersIsExact) {
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    const int64_t r = comm.rank();
    constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
    std::vector<int64_t> sum = {1, r, -r * r, (int64_t{1} << 60) + r, kHuge};
    std::vector<int64_t> least = {r, -r, 5}, most = least;
    ASSERT_TRUE(Done(
        comm, comm.AllReduce("sum", 0, ReduceOp::kSum, absl::MakeSpan(sum))));
    ASSERT_TRUE(Done(
        comm, comm.AllReduce("min", 0, ReduceOp::kMin, absl::MakeSpan(least))));
    ASSERT_TRUE(Done(
        comm, comm.AllReduce("max", 0, ReduceOp::kMax, absl::MakeSpan(most))));
    std::vector<int64_t> expected = {n, 0, 0, 0, 0};
    for (int64_t p = 0; p < n; ++p) {
      expected[1] += p;
      expected[2] -= p * p;
      expected[3] += (int64_t{1} << 60) + p;
      expected[4] = static_cast<int64_t>(static_cast<uint64_t>(expected[4]) +
                                         static_cast<uint64_t>(kHuge));
    }
    EXPECT_EQ(sum, expected);
    EXPECT_EQ(least, (std::vector<int64_t>{0, -(n - 1), 5}));
    EXPECT_EQ(most, (std::vector<int64_t>{n - 1, 0, 5}));
  });
}

TEST_P(CommunicatorContract, AllReduceOfFloatsKeepsNaNs) {
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    const float r = static_cast<float>(comm.rank());
    const float nan = std::numeric_limits<float>::quiet_NaN();
    // One rank alone has the NaN.
    std::vector<float> least = {r, comm.rank() == n - 1 ? nan : 1.0f};
    std::vector<float> most = least;
    ASSERT_TRUE(Done(
        comm, comm.AllReduce("min", 0, ReduceOp::kMin, absl::MakeSpan(least))));
    ASSERT_TRUE(Done(
        comm, comm.AllReduce("max", 0, ReduceOp::kMax, absl::MakeSpan(most))));
    EXPECT_EQ(least[0], 0.0f);
    EXPECT_EQ(most[0], n - 1.0f);
    EXPECT_TRUE(std::isnan(least[1]));
    EXPECT_TRUE(std::isnan(most[1]));
  });
}

TEST_P(CommunicatorContract, BroadcastGivesTheRootsBytes) {
  Run([](Communicator& comm) {
    for (int root = 0; root < comm.world_size(); ++root) {
      for (const int64_t bytes : kSizes) {
        Bytes data = RandomBytes(bytes, comm.rank());
        ASSERT_TRUE(
            Done(comm, comm.Broadcast("cast", 4, root, data.data(), bytes)));
        EXPECT_EQ(data, RandomBytes(bytes, root));
      }
    }
  });
}

TEST_P(CommunicatorContract, BarrierEndsAfterTheLastHasCome) {
  Run([](Communicator& comm) {
    for (int late = 0; late < comm.world_size(); ++late) {
      if (comm.rank() == late) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      // One clock for all ranks of a machine.
      int64_t came_ns = comm.device().NowNs();
      const bool done = Done(comm, comm.Barrier("meet", 5));
      const int64_t left_ns = comm.device().NowNs();
      ASSERT_TRUE(done);
      ASSERT_TRUE(Done(comm, comm.AllReduce("last", 0, ReduceOp::kMax,
                                            absl::MakeSpan(&came_ns, 1))));
      EXPECT_GE(left_ns, came_ns);
    }
  });
}

TEST_P(CommunicatorContract, CallsReturnBeforeTheStreamGetsToThem) {
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    constexpr int kCalls = 100;
    Gate gate;
    comm.device().Enqueue(StreamId::kNetwork, 0, gate.Hold());
    std::vector<int64_t> all(kCalls * n), mine(kCalls);
    Fence last;
    for (int i = 0; i < kCalls; ++i) {
      mine[i] = 1000 * i + comm.rank();
      const absl::StatusOr<Fence> fence =
          comm.AllGather("many", i, &mine[i], &all[i * n], sizeof(int64_t));
      ASSERT_TRUE(fence.ok());
      EXPECT_FALSE(comm.device().Reached(*fence));
      last = *fence;
    }
    gate.Open();
    ASSERT_TRUE(Done(comm, last));
    for (int i = 0; i < kCalls; ++i) {
      for (int p = 0; p < n; ++p) EXPECT_EQ(all[i * n + p], 1000 * i + p);
    }
  });
}

TEST_P(CommunicatorContract, RunsBesideTheOtherStreams) {
  Run([](Communicator& comm) {
    Gate gate;
    const Fence held =
        comm.device().Enqueue(StreamId::kCompute, 0, gate.Hold());
    EXPECT_TRUE(Done(comm, comm.Barrier("beside", 0)));
    EXPECT_FALSE(comm.device().Reached(held));
    gate.Open();
    EXPECT_TRUE(comm.device().Synchronize(held).ok());
  });
}

TEST_P(CommunicatorContract, WaitsForWhatItsStreamWaitsFor) {
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    int64_t value = -1;
    std::vector<int64_t> all(n);
    Gate gate;
    comm.device().Enqueue(StreamId::kCompute, 0, gate.Hold());
    const Fence written =
        comm.device().Enqueue(StreamId::kCompute, 0, [&](const ExecContext&) {
          value = comm.rank();
          return absl::OkStatus();
        });
    comm.device().Wait(StreamId::kNetwork, written, 0);
    const absl::StatusOr<Fence> fence =
        comm.AllGather("late input", 0, &value, all.data(), sizeof(value));
    gate.Open();
    ASSERT_TRUE(Done(comm, fence));
    for (int p = 0; p < n; ++p) EXPECT_EQ(all[p], p);
  });
}

TEST_P(CommunicatorContract, CountsWhatCrossesTheNetwork) {
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    constexpr int64_t kElements = 1000;
    const CommunicatorStats before = comm.stats();
    Bytes send(n * kElements * 2), recv(n * kElements * 2);
    std::vector<float> sum(kElements);
    ASSERT_TRUE(Done(
        comm, comm.AllGather("g", 0, send.data(), recv.data(), kElements * 2)));
    ASSERT_TRUE(Done(
        comm,
        comm.ReduceScatter("r", 0, DType::kBFloat16, send.data(), recv.data(),
                           sum.data(), kElements, true, StreamId::kCompute)));
    ASSERT_TRUE(Done(comm, comm.Broadcast("b", 0, 0, send.data(), 10)));
    ASSERT_TRUE(Done(comm, comm.Barrier("end", 0)));
    const CommunicatorStats after = comm.stats();
    // The bound of an all-gather, and of a reduce-scatter in its own type: what
    // is not one's own, once.
    const int64_t both = 2 * (n - 1) * kElements * 2;
    const bool root = comm.rank() == 0;
    EXPECT_EQ(after.bytes_sent - before.bytes_sent,
              both + (root ? 10 * (n - 1) : 0));
    EXPECT_EQ(after.bytes_received - before.bytes_received,
              both + (root ? 0 : 10));
    EXPECT_EQ(after.collectives - before.collectives, 4);
    EXPECT_EQ(static_cast<int>(after.wait_ns.size()), n);
    EXPECT_EQ(after.wait_ns[comm.rank()], 0);
  });
}

TEST_P(CommunicatorContract, ObserverHearsOfEveryCollectiveInOrder) {
  Run([](Communicator& comm) {
    Recorder recorder;
    comm.SetObserver(&recorder);
    std::vector<int64_t> all(comm.world_size());
    const int64_t mine = 7;
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(Done(comm, comm.AllGather(absl::StrCat("call ", i), 10 * i,
                                            &mine, all.data(), sizeof(mine))));
    }
    comm.SetObserver(nullptr);
    const std::vector<CollectiveRecord> records = recorder.Take();
    ASSERT_EQ(records.size(), 20u);
    int64_t last_ns = 0;
    for (int i = 0; i < 20; ++i) {
      const CollectiveRecord& record = records[i];
      EXPECT_EQ(record.id.kind, CollectiveKind::kAllGather);
      EXPECT_EQ(record.id.key, absl::StrCat("call ", i));
      EXPECT_EQ(record.id.sequence, records[0].id.sequence + i);
      EXPECT_EQ(record.id.part_bytes, 8);
      EXPECT_EQ(record.tag, 10 * i);
      EXPECT_EQ(record.bytes_sent, 8 * (comm.world_size() - 1));
      EXPECT_EQ(record.bytes_received, 8 * (comm.world_size() - 1));
      EXPECT_LE(last_ns, record.start_ns);
      EXPECT_LE(record.start_ns, record.ready_ns);
      EXPECT_LE(record.ready_ns, record.end_ns);
      last_ns = record.end_ns;
    }
  });
}

TEST_P(CommunicatorContract, WaitsAreCountedAgainstTheLateRank) {
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    if (n == 1) return;
    const int late = n - 1;
    Recorder recorder;
    comm.SetObserver(&recorder);
    // On a busy machine another rank may be later still: then it is tried once
    // more, with a longer delay.
    int64_t heard = 0;
    for (int64_t delay_us = 1000; heard == 0; delay_us *= 2) {
      ASSERT_TRUE(Done(comm, comm.Barrier("start", 0)));
      if (comm.rank() == late) {
        std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
      }
      const CommunicatorStats before = comm.stats();
      recorder.Take();
      ASSERT_TRUE(Done(comm, comm.Barrier("wait", 0)));
      const CommunicatorStats after = comm.stats();
      const std::vector<CollectiveRecord> records = recorder.Take();
      ASSERT_EQ(records.size(), 1u);
      const int last = records[0].last_rank;
      const int64_t wait_ns = records[0].ready_ns - records[0].start_ns;
      EXPECT_EQ(after.wait_ns[last] - before.wait_ns[last],
                last == comm.rank() ? 0 : wait_ns);
      heard = comm.rank() == late || last == late;
      ASSERT_TRUE(Done(comm, comm.AllReduce("heard", 0, ReduceOp::kMin,
                                            absl::MakeSpan(&heard, 1))));
    }
    comm.SetObserver(nullptr);
  });
}

TEST_P(CommunicatorContract, RefusesBadRequestsAndGoesOn) {
  Run([](Communicator& comm) {
    const int n = comm.world_size();
    std::vector<int64_t> data(n + 1);
    std::vector<float> floats(1);
    const auto refused = [](const absl::StatusOr<Fence>& fence) {
      EXPECT_EQ(fence.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_NE(fence.status().message().find("here"), absl::string_view::npos)
          << fence.status();
    };
    refused(comm.AllGather("here", 0, data.data(), data.data(), -1));
    refused(comm.AllGather("here", 0, nullptr, data.data(), 8));
    refused(comm.AllToAll("here", 0, data.data(), nullptr, 8));
    const std::vector<int64_t> few(n + 1, 0);
    refused(comm.AllToAll("here", 0, data.data(), few, data.data(), few));
    std::vector<int64_t> odd(n, 0), even(n, 0);
    odd[comm.rank()] = 8;
    refused(comm.AllToAll("here", 0, data.data(), odd, data.data(), even));
    refused(comm.Broadcast("here", 0, n, data.data(), 8));
    refused(comm.Broadcast("here", 0, -1, data.data(), 8));
    refused(comm.AllReduce("here", 0, ReduceOp::kSum, absl::MakeSpan(floats)));
    refused(comm.AllReduce("here", 0, ReduceOp::kNone, absl::MakeSpan(data)));
    refused(comm.ReduceScatter("here", 0, DType::kFloat32, data.data(),
                               data.data(), nullptr, 1, true,
                               StreamId::kCompute));
    std::vector<int64_t> large(Communicator::kMaxAllReduceBytes / 8 + 1);
    refused(comm.AllReduce("here", 0, ReduceOp::kMax, absl::MakeSpan(large)));
    EXPECT_TRUE(comm.failure().ok());
    EXPECT_TRUE(Done(comm, comm.Barrier("still there", 0)));
  });
}

TEST_P(CommunicatorContract, LongKeysAreCut) {
  Run([](Communicator& comm) {
    EXPECT_TRUE(Done(comm, comm.Barrier(std::string(1000, 'k'), 0)));
  });
}

TEST_P(CommunicatorContract, RandomSequencesGiveTheOraclesBits) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Run([seed](Communicator& comm) { RunRandomSequence(seed, 60, comm); });
    if (HasFailure()) return;
  }
}

}  // namespace

void OneProcessOfSeveral::Run(const std::function<void(Communicator&)>& body) {
  body(own_);
  int64_t failures = testing::Test::HasFailure() ? 1 : 0;
  EXPECT_TRUE(
      Done(own_, own_.AllReduce("did it fail anywhere", 0, ReduceOp::kSum,
                                absl::MakeSpan(&failures, 1))));
  EXPECT_EQ(failures, 0) << "ranks on which the test failed";
}

}  // namespace castor
