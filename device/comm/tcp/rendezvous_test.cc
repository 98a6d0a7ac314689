#include "device/comm/tcp/rendezvous.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "device/comm/handshake.h"
#include "device/comm/secret.h"
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
          // Both ends are one connection: a byte says from which rank and on
          // which lane.
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
  // It may be turned away before it has said all.
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
  ExpectStatus(Meet(stale, kShortNs), absl::StatusCode::kFailedPrecondition,
               {"rank 1 cannot join the run at 127.0.0.1:", "of another run"});
  EXPECT_TRUE(MeetLater(ranks[1], kLongNs).get().ok());
  EXPECT_TRUE(first.get().ok());
}

TEST(Rendezvous, RanksOfTwoRunsAtOnePortDoNotMix) {
  // The second run's rank 0 is refused; its others find no rank 0 of theirs,
  // and the first run does not notice.
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(2, AF_INET);
  std::vector<LaunchEnv> others = ranks;
  others[0].master_socket = -1;
  for (LaunchEnv& rank : others) rank.run_id = "another run";
  std::future<Result> first = MeetLater(ranks[0], kLongNs);
  ExpectStatus(Meet(others[0], kShortNs), absl::StatusCode::kAlreadyExists,
               {absl::StrCat("port ", ranks[0].master_port), "MASTER_PORT"});
  std::future<Result> lost = MeetLater(others[1], kShortNs);
  EXPECT_TRUE(MeetLater(ranks[1], kLongNs).get().ok());
  EXPECT_TRUE(first.get().ok());
  EXPECT_FALSE(lost.get().ok());
}

// A run with a secret, and one who attacks it.
class SecretRendezvous : public ::testing::Test {
 protected:
  static constexpr char kSecret[] = "what no stranger can know";

  SecretRendezvous() : ranks_(LaunchOnLoopback(2, AF_INET)) {
    for (LaunchEnv& rank : ranks_) rank.secret = kSecret;
  }

  // Makes the handshake of rank 1's control connection, by this secret.
  Handshake Impostor(const std::string& secret, int as_rank = 1) const {
    const HandshakeTerms terms = {.key = Hmac(secret, "castor rendezvous"),
                                  .run_id = ranks_[0].run_id,
                                  .role = ConnectionRole::kControl,
                                  .note_bytes = kNoteBytes};
    Claim claim;
    claim.rank = as_rank;
    std::string note(kNoteBytes, '\0');
    note[0] = 2;  // the world's size
    return Handshake::Connecting(terms, *RandomKey(), claim, note);
  }

  // Expects that the real ranks meet in spite of the strangers that came first,
  // which are counted.
  void ExpectToMeet(std::future<Result> first, int64_t strangers) {
    const Result other = MeetLater(ranks_[1], kLongNs).get();
    EXPECT_TRUE(other.ok()) << other.status();
    const Result met = first.get();
    ASSERT_TRUE(met.ok()) << met.status();
    EXPECT_EQ(met->strangers, strangers);
    EXPECT_EQ(absl::StrContains(met->strangers_text, "127.0.0.1"),
              strangers > 0)
        << met->strangers_text;
    EXPECT_FALSE(met->several_machines);
  }

  static std::string HearAll(const Socket& socket) {
    std::string heard;
    char byte;
    while (ReadAll(socket.fd(), &byte, 1, SteadyNowNs() + kLongNs).ok()) {
      heard.push_back(byte);
    }
    return heard;
  }

  static constexpr size_t kNoteBytes = 72;
  std::vector<LaunchEnv> ranks_;
};

TEST_F(SecretRendezvous, OneWhoKnowsItIsLetIn) {
  // This shows that the secret causes the refusals below.
  std::future<Result> first = MeetLater(ranks_[0], kLongNs);
  {
    const Socket socket = ConnectAsStranger(ranks_[0]);
    Handshake handshake = Impostor(kSecret);
    EXPECT_TRUE(
        ShakeHands(socket.fd(), &handshake, SteadyNowNs() + kLongNs).ok());
  }
  // It was let in as rank 1, so that its end is rank 1's death.
  ExpectStatus(first.get(), absl::StatusCode::kUnavailable,
               {"rank 1 (process ", "died"});
}

TEST_F(SecretRendezvous, TurnsAwayWhoHasAnother) {
  std::future<Result> first = MeetLater(ranks_[0], kLongNs);
  LaunchEnv wrong = ranks_[1];
  wrong.secret = "what a stranger may guess";
  ExpectStatus(Meet(wrong, kShortNs), absl::StatusCode::kFailedPrecondition,
               {"rank 1 cannot join", "does not prove", "the secrets differ",
                "CASTOR_SECRET"});
  wrong.secret = "";
  ExpectStatus(Meet(wrong, kShortNs), absl::StatusCode::kFailedPrecondition,
               {"this rank has no secret", "CASTOR_SECRET_FILE"});
  // One who goes on all the same, and does not look at rank 0's proof.
  const Socket socket = ConnectAsStranger(ranks_[0]);
  const std::string claim = Impostor("").TakeWords();
  ASSERT_TRUE(
      WriteAll(socket.fd(), claim.data(), claim.size(), SteadyNowNs() + kLongNs)
          .ok());
  std::string answer(68, '\0');
  ASSERT_TRUE(ReadAll(socket.fd(), answer.data(), answer.size(),
                      SteadyNowNs() + kLongNs)
                  .ok());
  const std::string guess(kNoteBytes + kKeyBytes, 'G');
  ASSERT_TRUE(
      WriteAll(socket.fd(), guess.data(), guess.size(), SteadyNowNs() + kLongNs)
          .ok());
  EXPECT_EQ(HearAll(socket), "");  // and is shown the door
  const Result other = MeetLater(ranks_[1], kLongNs).get();
  EXPECT_TRUE(other.ok()) << other.status();
  const Result met = first.get();
  ASSERT_TRUE(met.ok()) << met.status();
  EXPECT_GE(met->strangers, 3);
}

// Rank 0 gave up first, for want of the rank that it had turned away, which
// then said only that nobody listens there.
TEST_F(SecretRendezvous, WhoHasAnotherIsToldSoThoughRankZeroEnds) {
  LaunchEnv wrong = ranks_[1];
  wrong.secret = "what a stranger may guess";
  // It connects at once, to a socket at which rank 0 will listen.
  std::future<Result> turned_away = MeetLater(wrong, 10 * kShortNs);
  ExpectStatus(Meet(ranks_[0], 3 * kShortNs), absl::StatusCode::kUnavailable,
               {"no connection from rank 1", "turned away"});
  ExpectStatus(turned_away.get(), absl::StatusCode::kFailedPrecondition,
               {"rank 1 cannot join", "the secrets differ"});
}

TEST_F(SecretRendezvous, WhoHasAnotherDoesNotWaitForItsWholeLimit) {
  std::future<Result> first = MeetLater(ranks_[0], kLongNs);
  LaunchEnv wrong = ranks_[1];
  wrong.secret = "what a stranger may guess";
  // Far longer than a test may take.
  ExpectStatus(Meet(wrong, 60 * kLongNs), absl::StatusCode::kFailedPrecondition,
               {"rank 1 cannot join"});
  EXPECT_TRUE(MeetLater(ranks_[1], kLongNs).get().ok());
  EXPECT_TRUE(first.get().ok());
}

TEST_F(SecretRendezvous, ProofThatWasHeardBeforeIsNone) {
  // All that a rank says is heard on its way, and said again.
  std::vector<LaunchEnv> earlier = LaunchOnLoopback(2, AF_INET);
  for (LaunchEnv& rank : earlier) {
    rank.secret = kSecret;
    rank.run_id = ranks_[0].run_id;
  }
  Socket ear(earlier[0].master_socket);
  const HandshakeTerms terms = {.key = Hmac(kSecret, "castor rendezvous"),
                                .run_id = ranks_[0].run_id,
                                .role = ConnectionRole::kControl,
                                .note_bytes = kNoteBytes};
  std::future<Result> copied = MeetLater(earlier[1], kShortNs);
  ASSERT_TRUE(WaitForSocket(ear.fd(), POLLIN, SteadyNowNs() + kLongNs));
  Socket heard = AcceptNow(ear.fd());
  ear.Reset();
  Handshake listening = Handshake::Listening(terms, *RandomKey(), 0);
  std::string words;
  while (!listening.done()) {
    std::string next(listening.wanted(), '\0');
    ASSERT_TRUE(
        ReadAll(heard.fd(), next.data(), next.size(), SteadyNowNs() + kLongNs)
            .ok());
    words += next;
    ASSERT_TRUE(listening.Hear(next));
    const std::string answer = listening.TakeWords();
    ASSERT_TRUE(WriteAll(heard.fd(), answer.data(), answer.size(),
                         SteadyNowNs() + kLongNs)
                    .ok());
  }
  heard.Reset();
  std::future<Result> first = MeetLater(ranks_[0], kLongNs);
  const Socket replay = ConnectAsStranger(ranks_[0]);
  ASSERT_TRUE(
      WriteAll(replay.fd(), words.data(), words.size(), SteadyNowNs() + kLongNs)
          .ok());
  EXPECT_EQ(HearAll(replay).size(), 68u);  // an answer, and no welcome
  ExpectToMeet(std::move(first), 1);
  EXPECT_FALSE(copied.get().ok());
}

TEST_F(SecretRendezvous, ItsOwnProofSaidBackIsNone) {
  std::future<Result> first = MeetLater(ranks_[0], kLongNs);
  const Socket mirror = ConnectAsStranger(ranks_[0]);
  std::string claim = Impostor("").TakeWords();
  ASSERT_TRUE(
      WriteAll(mirror.fd(), claim.data(), claim.size(), SteadyNowNs() + kLongNs)
          .ok());
  std::string answer(68, '\0');
  ASSERT_TRUE(ReadAll(mirror.fd(), answer.data(), answer.size(),
                      SteadyNowNs() + kLongNs)
                  .ok());
  const std::string back =
      std::string(kNoteBytes, '\0') + answer.substr(4 + kKeyBytes);
  ASSERT_TRUE(
      WriteAll(mirror.fd(), back.data(), back.size(), SteadyNowNs() + kLongNs)
          .ok());
  EXPECT_EQ(HearAll(mirror), "");
  ExpectToMeet(std::move(first), 1);
}

TEST_F(SecretRendezvous, HelloOfBeforeTheSecretIsTurnedAway) {
  std::future<Result> first = MeetLater(ranks_[0], kLongNs);
  const Socket old = ConnectAsStranger(ranks_[0]);
  // Its version, rank 1 of 2, a process, the run's id, a host, a listener.
  std::string hello(272, '\0');
  hello.replace(0, 12, std::string("1HTC\1\0\0\0\2\0\0\0", 12));
  hello.replace(16, ranks_[0].run_id.size(), ranks_[0].run_id);
  hello.replace(80, 4, "host");
  ASSERT_TRUE(
      WriteAll(old.fd(), hello.data(), hello.size(), SteadyNowNs() + kLongNs)
          .ok());
  EXPECT_EQ(HearAll(old), "");
  ExpectToMeet(std::move(first), 1);
}

TEST_F(SecretRendezvous, StrangersInMassesDoNotKeepRanksOut) {
  // There are more silent strangers than are listened to at a time, some with
  // half a hello, and more come while the ranks meet.
  std::future<Result> first = MeetLater(ranks_[0], kLongNs);
  std::atomic<bool> stop{false};
  std::vector<std::thread> attackers;
  for (int i = 0; i < 2; ++i) {
    attackers.emplace_back([&, i] {
      std::deque<Socket> held;
      SocketAddress address = Loopback();
      address.set_port(ranks_[0].master_port);
      const std::string claim = Impostor("").TakeWords();
      while (!stop.load()) {
        auto socket = ConnectTo(address, SteadyNowNs() + 10'000'000);
        if (!socket.ok()) continue;
        if (i == 0) {
          (void)!send(socket->fd(), claim.data(), claim.size() / 2,
                      MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        held.push_back(*std::move(socket));
        if (held.size() > 150) held.pop_front();
        // Hundreds a second: a machine that can do no more than answer
        // connections keeps ranks out, and is not tested.
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  }
  const Result other = MeetLater(ranks_[1], kLongNs).get();
  EXPECT_TRUE(other.ok()) << other.status();
  const Result met = first.get();
  EXPECT_TRUE(met.ok()) << met.status();
  stop.store(true);
  for (std::thread& attacker : attackers) attacker.join();
}

TEST_F(SecretRendezvous, StrangersAmongTheLanesAreTurnedAway) {
  // A run's secret of before the meeting opens no lane: they have a key of this
  // meeting's own. Rank 1 is kept from ending by rank 2, who is late.
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(3, AF_INET);
  for (LaunchEnv& rank : ranks) rank.secret = kSecret;
  std::vector<std::future<Result>> results;
  for (const LaunchEnv& rank : ranks) {
    results.push_back(MeetLater(rank, kLongNs));
    const Socket stranger = ConnectAsStranger(ranks[0]);
    const HandshakeTerms terms = {.key = kSecret,
                                  .run_id = ranks[0].run_id,
                                  .role = ConnectionRole::kLane,
                                  .note_bytes = 0};
    Claim claim;
    claim.role = ConnectionRole::kLane;
    claim.rank = 2;
    Handshake lane = Handshake::Connecting(terms, *RandomKey(), claim, "");
    EXPECT_FALSE(
        ShakeHands(stranger.fd(), &lane, SteadyNowNs() + kShortNs).ok());
  }
  for (auto& result : results) {
    const Result met = result.get();
    EXPECT_TRUE(met.ok()) << met.status();
  }
}

TEST(Rendezvous, RankThatDiesWhileOthersAreAwaitedIsNamed) {
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(3, AF_INET);
  std::future<Result> first = MeetLater(ranks[0], kLongNs);
  // Says who it is, as rank 1 does, and goes.
  {
    const Socket brief = ConnectAsStranger(ranks[0]);
    Claim claim;
    claim.rank = 1;
    std::string note(72, '\0');
    note[0] = 3;  // the world's size
    const HandshakeTerms terms = {.key = Hmac("", "castor rendezvous"),
                                  .run_id = ranks[0].run_id,
                                  .role = ConnectionRole::kControl,
                                  .note_bytes = note.size()};
    Handshake handshake =
        Handshake::Connecting(terms, *RandomKey(), claim, note);
    ASSERT_TRUE(
        ShakeHands(brief.fd(), &handshake, SteadyNowNs() + kLongNs).ok());
  }
  ExpectStatus(first.get(), absl::StatusCode::kUnavailable,
               {"rank 1 (process ", "died before all ranks had come"});
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
