#include "device/comm/watch.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/signals.h"
#include "base/test_threads.h"

namespace castor {
namespace {

// Ranks as threads: a rank whose watch goes without Leave looks like a process
// that died.
class Group {
 public:
  explicit Group(int world_size, bool same_machine = true)
      : deaths_(world_size), watches_(world_size) {
    std::promise<std::string> endpoint;
    std::shared_future<std::string> shared = endpoint.get_future().share();
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < world_size; ++rank) {
      ranks.emplace_back([&, rank] {
        WatchOptions options;
        options.same_machine = same_machine;
        options.take_sigterm = false;
        options.on_death = [this, rank](absl::string_view text) {
          std::lock_guard<std::mutex> lock(mutex_);
          deaths_[rank] += std::string(text) + "\n";
        };
        auto watch = Watch::Create(
            rank, world_size, options, [&](void* data, int64_t bytes) {
              if (rank == 0) {
                endpoint.set_value(
                    std::string(static_cast<char*>(data), bytes));
              } else {
                std::memcpy(data, shared.get().data(), bytes);
              }
              return absl::OkStatus();
            });
        ASSERT_TRUE(watch.ok()) << watch.status();
        watches_[rank] = *std::move(watch);
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }

  Watch& operator[](int rank) { return *watches_[rank]; }
  void Kill(int rank) { watches_[rank].reset(); }
  std::string deaths(int rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    return deaths_[rank];
  }
  void AwaitDeaths(int rank) {
    while (deaths(rank).empty()) std::this_thread::yield();
  }
  absl::Status Await(int rank) {
    while (!watches_[rank]->failed()) std::this_thread::yield();
    return watches_[rank]->Failure();
  }

 private:
  // The order matters: the watches tell of deaths until they are gone.
  std::mutex mutex_;
  std::vector<std::string> deaths_;
  std::vector<std::unique_ptr<Watch>> watches_;
};

TEST(Watch, NothingHappensWhereAllLeave) {
  Group group(4);
  for (int rank = 0; rank < 4; ++rank) group[rank].Leave();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(group[rank].Failure().ok());
  }
  // Now they go, one after the other; those that are left hear of no death.
  for (int rank = 0; rank < 3; ++rank) group.Kill(rank);
  EXPECT_TRUE(group[3].Failure().ok());
  EXPECT_EQ(group.deaths(3), "");
}

TEST(Watch, DeathOfARankReachesAllAndIsSaidOnce) {
  Group group(4);
  group.Kill(2);
  for (const int rank : {0, 1, 3}) {
    const absl::Status status = group.Await(rank);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StartsWith(status.message(), "rank 2 (process "))
        << status;
  }
  group.AwaitDeaths(0);
  EXPECT_TRUE(absl::StartsWith(group.deaths(0), "rank 2 (process "));
  EXPECT_EQ(group.deaths(1) + group.deaths(3), "");
}

TEST(Watch, DeathOfTheFirstRankReachesAllAndIsSaidOnce) {
  Group group(3);
  group.Kill(0);
  for (const int rank : {1, 2}) {
    EXPECT_TRUE(absl::StartsWith(group.Await(rank).message(), "rank 0 ("))
        << group[rank].Failure();
  }
  group.AwaitDeaths(1);
  EXPECT_EQ(group.deaths(2), "");
}

TEST(Watch, AnnouncementReachesAllWithItsCode) {
  for (const int from : {0, 1, 2}) {
    Group group(3);
    group[from].Announce(absl::DataLossError("a torn page"));
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(group.Await(rank), absl::DataLossError("a torn page"));
    }
    // Later words change nothing.
    group[from].Announce(absl::InternalError("another"));
    EXPECT_EQ(group[from].Failure(), absl::DataLossError("a torn page"));
  }
}

TEST(Watch, LongReasonsAreCut) {
  Group group(2);
  group[1].Announce(absl::InternalError(std::string(100'000, 'x')));
  const absl::Status status = group.Await(0);
  EXPECT_GT(status.message().size(), 1000u);
  EXPECT_LT(status.message().size(), 100'000u);
}

TEST(Watch, ConnectsByTheMachinesOwnAddresses) {
  // The ranks connect as if on several machines: not over loopback, if there is
  // another address.
  WatchOptions options;
  options.same_machine = false;
  options.take_sigterm = false;
  options.connect_limit_ns = 200'000'000;
  uint16_t addresses = 0;
  auto alone = Watch::Create(0, 1, options, [&](void* data, int64_t) {
    // The count lies behind the secret and the port.
    std::memcpy(&addresses, static_cast<char*>(data) + 18, 2);
    return absl::OkStatus();
  });
  ASSERT_TRUE(alone.ok()) << alone.status();
  if (addresses == 0) GTEST_SKIP() << "this machine has only loopback";
  Group group(3, /*same_machine=*/false);
  group.Kill(1);
  EXPECT_FALSE(group.Await(2).ok());
}

TEST(Watch, SaysThatThereIsNoThreadForIt) {
  WatchOptions options;
  options.take_sigterm = false;
  const FewThreads few(0);
  auto watch = Watch::Create(0, 1, options,
                             [](void*, int64_t) { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsResourceExhausted(watch.status())) << watch.status();
}

TEST(Watch, SaysWhichRankDidNotCome) {
  WatchOptions options;
  options.take_sigterm = false;
  options.connect_limit_ns = 50'000'000;
  auto watch = Watch::Create(0, 3, options,
                             [](void*, int64_t) { return absl::OkStatus(); });
  ASSERT_FALSE(watch.ok());
  EXPECT_TRUE(absl::StrContains(watch.status().message(),
                                "no connection from rank 1, 2"))
      << watch.status();
}

TEST(Watch, PassesOverStrangers) {
  // A stranger that connects without the secret is turned away; the ranks get
  // in.
  std::vector<char> endpoint;
  std::promise<void> listening;
  std::shared_future<void> ready = listening.get_future().share();
  WatchOptions options;
  options.take_sigterm = false;
  absl::StatusOr<std::unique_ptr<Watch>> first, second;
  std::thread rank0([&] {
    first = Watch::Create(0, 2, options, [&](void* data, int64_t bytes) {
      endpoint.assign(static_cast<char*>(data),
                      static_cast<char*>(data) + bytes);
      listening.set_value();
      return absl::OkStatus();
    });
  });
  ready.wait();
  const int stranger = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  std::memcpy(&address.sin_port, endpoint.data() + 16, 2);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(
      connect(stranger, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  const std::string noise(200, 'G');
  ASSERT_EQ(send(stranger, noise.data(), noise.size(), MSG_NOSIGNAL), 200);
  second = Watch::Create(1, 2, options, [&](void* data, int64_t bytes) {
    std::memcpy(data, endpoint.data(), bytes);
    return absl::OkStatus();
  });
  rank0.join();
  close(stranger);
  EXPECT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST(Watch, RefusesRankZeroOfAnotherRun) {
  std::vector<char> endpoint;
  std::promise<void> listening;
  WatchOptions options;
  options.take_sigterm = false;
  options.connect_limit_ns = 300'000'000;
  std::thread rank0([&] {
    auto watch = Watch::Create(0, 2, options, [&](void* data, int64_t bytes) {
      endpoint.assign(static_cast<char*>(data),
                      static_cast<char*>(data) + bytes);
      listening.set_value();
      return absl::OkStatus();
    });
    EXPECT_FALSE(watch.ok());
  });
  listening.get_future().wait();
  auto watch = Watch::Create(1, 2, options, [&](void* data, int64_t bytes) {
    std::memcpy(data, endpoint.data(), bytes);
    static_cast<char*>(data)[0] ^= 1;  // another secret
    return absl::OkStatus();
  });
  rank0.join();
  EXPECT_TRUE(absl::StrContains(watch.status().message(),
                                "rank 1 cannot connect to rank 0"))
      << watch.status();
}

TEST(Sigterm, IsTakenOnlyFromTheDefault) {
  EXPECT_TRUE(TakeSigterm(-1));
  EXPECT_FALSE(TakeSigterm(-1));
  EXPECT_FALSE(SigtermCame());
  raise(SIGTERM);
  EXPECT_TRUE(SigtermCame());
  GiveSigtermBack();
  signal(SIGTERM, SIG_IGN);
  EXPECT_FALSE(TakeSigterm(-1));
  // A handler that was put there later stays.
  signal(SIGTERM, SIG_DFL);
  EXPECT_TRUE(TakeSigterm(-1));
  signal(SIGTERM, SIG_IGN);
  GiveSigtermBack();
  EXPECT_EQ(signal(SIGTERM, SIG_DFL), SIG_IGN);
}

}  // namespace
}  // namespace castor
