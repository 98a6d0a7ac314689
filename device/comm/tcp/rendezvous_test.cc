#include "device/comm/tcp/rendezvous.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "device/comm/socket.h"
#include "device/comm/tcp/tcp_ranks_for_test.h"

namespace castor {
namespace {

constexpr int64_t kLongNs = 60'000'000'000;
constexpr int64_t kShortNs = 300'000'000;

using Result = absl::StatusOr<Meeting>;

std::future<Result> MeetLater(const LaunchEnv& env, int64_t limit_ns) {
  return std::async(std::launch::async, [=] { return Meet(env, limit_ns); });
}

std::vector<Result> MeetAll(const std::vector<LaunchEnv>& ranks,
                            int64_t limit_ns) {
  std::vector<std::future<Result>> futures;
  for (const LaunchEnv& rank : ranks) {
    futures.push_back(MeetLater(rank, limit_ns));
  }
  std::vector<Result> results;
  for (auto& future : futures) results.push_back(future.get());
  return results;
}

void ExpectStatus(const Result& result, absl::StatusCode code,
                  const std::vector<std::string>& words) {
  EXPECT_EQ(result.status().code(), code) << result.status();
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(result.status().message(), word))
        << "no \"" << word << "\" in: " << result.status();
  }
}

bool HasIpv6() {
  SocketAddress address;
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  v6->sin6_family = AF_INET6;
  v6->sin6_addr = in6addr_loopback;
  return ListenAt(address, 1).ok();
}

Socket ConnectAsStranger(const LaunchEnv& env) {
  SocketAddress address = Loopback();
  address.set_port(env.master_port);
  auto socket = ConnectTo(address, SteadyNowNs() + kLongNs);
  EXPECT_TRUE(socket.ok()) << socket.status();
  return socket.ok() ? *std::move(socket) : Socket();
}

TEST(Rendezvous, ConnectsEachWithEachOnBothLanes) {
  for (const int family : {AF_INET, AF_INET6}) {
    if (family == AF_INET6 && !HasIpv6()) {
      std::fprintf(stderr, "SKIPPED: this machine has no IPv6\n");
      continue;
    }
    std::vector<Result> all = MeetAll(LaunchOnLoopback(4, family), kLongNs);
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_TRUE(all[rank].ok()) << all[rank].status();
      EXPECT_EQ(all[rank]->controls.size(), rank == 0 ? 3u : 1u);
      for (int peer = 0; peer < 4; ++peer) {
        EXPECT_TRUE(absl::StartsWith(
            all[rank]->who[peer], absl::StrCat("rank ", peer, " (process ")));
        for (int lane = 0; lane < kNumLanes; ++lane) {
          const int there = peer * kNumLanes + lane;
          ASSERT_EQ(static_cast<bool>(all[rank]->lanes[there]), peer != rank);
          if (peer == rank) continue;
          // Both ends are one connection: a byte says from whom and on what.
          const char byte = static_cast<char>(rank * 16 + lane);
          ASSERT_TRUE(WriteAll(all[rank]->lanes[there].fd(), &byte, 1,
                               SteadyNowNs() + kLongNs)
                          .ok());
        }
      }
    }
    for (int rank = 0; rank < 4; ++rank) {
      for (int i = 0; i < 4 * kNumLanes; ++i) {
        if (i / kNumLanes == rank) continue;
        char byte = 0;
        ASSERT_TRUE(
            ReadAll(all[rank]->lanes[i].fd(), &byte, 1, SteadyNowNs() + kLongNs)
                .ok());
        EXPECT_EQ(byte, i / kNumLanes * 16 + i % kNumLanes);
      }
    }
  }
}

TEST(Rendezvous, WaitsForRankZero) {
  // The others are there first and find nobody.
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(2, AF_INET);
  Socket taken(std::exchange(ranks[0].master_socket, -1));
  taken.Reset();
  std::future<Result> other = MeetLater(ranks[1], kLongNs);
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(250)),
            std::future_status::timeout);
  std::future<Result> first = MeetLater(ranks[0], kLongNs);
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(other.get().ok());
}

TEST(Rendezvous, NamesTheRanksThatDoNotCome) {
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(4, AF_INET);
  ranks.erase(ranks.begin() + 3);
  ranks.erase(ranks.begin() + 1);
  for (const Result& result : MeetAll(ranks, kShortNs)) {
    ExpectStatus(result, absl::StatusCode::kUnavailable,
                 {"no connection from rank 1, 3 of 4 within 0.3 s"});
  }
}

TEST(Rendezvous, SaysWhereRankZeroWasLookedFor) {
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(2, AF_INET);
  Socket(ranks[0].master_socket).Reset();
  ExpectStatus(Meet(ranks[1], kShortNs), absl::StatusCode::kUnavailable,
               {"rank 1 did not find rank 0 at 127.0.0.1:", "within 0.3 s",
                "Connection refused"});
  ranks[1].master_address = "no-such-host.invalid";
  ExpectStatus(Meet(ranks[1], kShortNs), absl::StatusCode::kNotFound,
               {"no-such-host.invalid"});
}

TEST(Rendezvous, NamesTwoProcessesOfTheSameRank) {
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(3, AF_INET);
  ranks[2].rank = 1;
  int named = 0;
  for (const Result& result : MeetAll(ranks, 5'000'000'000)) {
    EXPECT_FALSE(result.ok());
    named += absl::StrContains(result.status().message(),
                               "two processes were started as the same rank: "
                               "rank 1 (process ");
  }
  EXPECT_EQ(named, 3);
}

TEST(Rendezvous, NamesBothWhereWorldSizesDiffer) {
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(2, AF_INET);
  ranks[1].world_size = 3;
  for (const Result& result : MeetAll(ranks, kLongNs)) {
    ExpectStatus(result, absl::StatusCode::kInvalidArgument,
                 {"rank 1 (process ", "was started as one of 3 ranks, rank 0 (",
                  "as one of 2"});
  }
}

TEST(Rendezvous, TurnsStrangersAway) {
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(2, AF_INET);
  std::future<Result> first = MeetLater(ranks[0], kLongNs);
  const Socket silent = ConnectAsStranger(ranks[0]);
  const Socket brief = ConnectAsStranger(ranks[0]);
  const Socket noisy = ConnectAsStranger(ranks[0]);
  { const Socket gone = ConnectAsStranger(ranks[0]); }
  const std::string noise(100'000, 'G');
  ASSERT_TRUE(WriteAll(brief.fd(), "GET", 3, SteadyNowNs() + kLongNs).ok());
  // It may be shown the door before it has said all.
  WriteAll(noisy.fd(), noise.data(), noise.size(), SteadyNowNs() + kLongNs)
      .IgnoreError();
  EXPECT_TRUE(MeetLater(ranks[1], kLongNs).get().ok());
  EXPECT_TRUE(first.get().ok());
}

TEST(Rendezvous, TurnsRanksOfAnotherRunAway) {
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(2, AF_INET);
  LaunchEnv stale = ranks[1];
  stale.run_id = "the run before";
  std::future<Result> first = MeetLater(ranks[0], kLongNs);
  ExpectStatus(Meet(stale, kShortNs), absl::StatusCode::kAborted,
               {"rank 0 (process ", "of another run"});
  EXPECT_TRUE(MeetLater(ranks[1], kLongNs).get().ok());
  EXPECT_TRUE(first.get().ok());
}

TEST(Rendezvous, RankThatDiesWhileOthersAreAwaitedIsNamed) {
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(3, AF_INET);
  std::future<Result> first = MeetLater(ranks[0], kLongNs);
  // Says who it is, as rank 1 does, and goes. Its words are taken from a real
  // rank that has met an ear instead of rank 0.
  std::vector<LaunchEnv> ear = LaunchOnLoopback(3, AF_INET);
  ear[1].run_id = ranks[1].run_id;
  std::future<Result> copied = MeetLater(ear[1], kShortNs);
  const Socket listener(ear[0].master_socket);
  ASSERT_TRUE(WaitForSocket(listener.fd(), POLLIN, SteadyNowNs() + kLongNs));
  Socket heard = AcceptNow(listener.fd());
  std::string words;
  while (WaitForSocket(heard.fd(), POLLIN, SteadyNowNs() + kShortNs)) {
    char buffer[4096];
    const ssize_t got = recv(heard.fd(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got <= 0) break;
    words.append(buffer, got);
  }
  heard.Reset();
  {
    const Socket brief = ConnectAsStranger(ranks[0]);
    ASSERT_TRUE(WriteAll(brief.fd(), words.data(), words.size(),
                         SteadyNowNs() + kLongNs)
                    .ok());
  }
  ExpectStatus(first.get(), absl::StatusCode::kUnavailable,
               {"rank 1 (process ", "died before all ranks had come"});
  EXPECT_FALSE(copied.get().ok());
}

TEST(Rendezvous, SaysThatThePortIsTaken) {
  const std::vector<LaunchEnv> others = LaunchOnLoopback(1, AF_INET);
  const Socket other(others[0].master_socket);
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(1, AF_INET);
  Socket(ranks[0].master_socket).Reset();
  ranks[0].master_socket = -1;
  ranks[0].master_port = others[0].master_port;
  ExpectStatus(Meet(ranks[0], kShortNs), absl::StatusCode::kAlreadyExists,
               {absl::StrCat("port ", others[0].master_port), "MASTER_PORT"});
}

TEST(Rendezvous, RefusesToMeetNowhere) {
  LaunchEnv env;
  env.launcher = Launcher::kSrun;
  env.rank = 1;
  env.world_size = 2;
  ExpectStatus(Meet(env, kShortNs), absl::StatusCode::kInvalidArgument,
               {"srun", "MASTER_ADDR"});
}

}  // namespace
}  // namespace castor
