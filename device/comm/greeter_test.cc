#include "device/comm/greeter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "device/comm/secret.h"

namespace castor {
namespace {

constexpr int64_t kMsNs = 1'000'000;
constexpr int64_t kLongNs = 60'000 * kMsNs;

using What = Greeter::News::What;

HandshakeTerms Terms(const std::string& key = "the run's key") {
  return {.key = key,
          .run_id = "run",
          .role = ConnectionRole::kControl,
          .note_bytes = 4};
}

Claim OfRank(int rank) {
  Claim claim;
  claim.rank = rank;
  return claim;
}

class GreeterTest : public ::testing::Test {
 protected:
  GreeterTest() : listener_(*ListenAt(Loopback(), 512)) {}

  Socket Connect() const {
    auto socket =
        ConnectTo(LocalAddress(listener_.fd()), SteadyNowNs() + kLongNs);
    EXPECT_TRUE(socket.ok()) << socket.status();
    return socket.ok() ? *std::move(socket) : Socket();
  }
  // A rank that comes, in a thread of its own.
  std::future<absl::Status> Come(int rank) const {
    return std::async(std::launch::async, [this, rank] {
      const Socket socket = Connect();
      Handshake handshake =
          Handshake::Connecting(Terms(), *RandomKey(), OfRank(rank), "note");
      return ShakeHands(socket.fd(), &handshake, SteadyNowNs() + kLongNs);
    });
  }
  static void Say(const Socket& socket, const std::string& words) {
    EXPECT_TRUE(WriteAll(socket.fd(), words.data(), words.size(),
                         SteadyNowNs() + kLongNs)
                    .ok());
  }

  const Socket listener_;
};

TEST_F(GreeterTest, GivesWhoComesWithProof) {
  Greeter greeter(listener_.fd(), Terms(), 0);
  std::future<absl::Status> came = Come(3);
  const auto news = greeter.Next({}, SteadyNowNs() + kLongNs);
  ASSERT_TRUE(news.has_value());
  EXPECT_EQ(news->what, What::kCame);
  EXPECT_EQ(news->claim.rank, 3);
  EXPECT_EQ(news->note, "note");
  EXPECT_TRUE(came.get().ok());
  EXPECT_EQ(greeter.strangers(), 0);
  EXPECT_EQ(greeter.StrangersText(), "");
  EXPECT_FALSE(greeter.Next({}, SteadyNowNs() + kMsNs).has_value());
}

TEST_F(GreeterTest, StrangersAreTurnedAwayAndCounted) {
  Greeter greeter(listener_.fd(), Terms(), 0, 50 * kMsNs);
  const Socket silent = Connect(), half = Connect(), noisy = Connect();
  { const Socket gone = Connect(); }
  Say(half, "GET / HTTP/1.1\r\n");
  Say(noisy, std::string(100'000, 'G'));
  EXPECT_FALSE(greeter.Next({}, SteadyNowNs() + 500 * kMsNs).has_value());
  EXPECT_EQ(greeter.strangers(), 4);
  EXPECT_TRUE(absl::StrContains(greeter.StrangersText(),
                                "4 connections were turned away, the last from "
                                "127.0.0.1"));
  // They hear nothing but the end.
  for (const Socket* stranger : {&silent, &half, &noisy}) {
    char byte;
    EXPECT_FALSE(
        ReadAll(stranger->fd(), &byte, 1, SteadyNowNs() + kLongNs).ok());
  }
}

TEST_F(GreeterTest, DropByDropLastsNoLonger) {
  // A byte now and then, of words that are right so far.
  Greeter greeter(listener_.fd(), Terms(), 0, 200 * kMsNs);
  const Socket slow = Connect();
  std::atomic<bool> stop{false};
  std::thread dripping([&] {
    const std::string words =
        Handshake::Connecting(Terms(), *RandomKey(), OfRank(1), "note")
            .TakeWords();
    for (size_t i = 0; i < words.size() && !stop.load(); ++i) {
      if (send(slow.fd(), &words[i], 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  while (greeter.strangers() == 0) {
    ASSERT_FALSE(greeter.Next({}, SteadyNowNs() + 50 * kMsNs).has_value());
  }
  stop.store(true);
  dripping.join();
  EXPECT_EQ(greeter.strangers(), 1);
}

TEST_F(GreeterTest, MoreStrangersThanThereIsRoomForHinderNobody) {
  Greeter greeter(listener_.fd(), Terms(), 0);
  std::vector<Socket> strangers;
  for (int i = 0; i < 400; ++i) strangers.push_back(Connect());
  std::future<absl::Status> came = Come(7);
  const auto news = greeter.Next({}, SteadyNowNs() + kLongNs);
  ASSERT_TRUE(news.has_value());
  EXPECT_EQ(news->claim.rank, 7);
  EXPECT_TRUE(came.get().ok());
  EXPECT_GT(greeter.strangers(), 0);
}

TEST_F(GreeterTest, GreetsOthers) {
  Greeter greeter(-1, Terms(), 5);
  ASSERT_TRUE(greeter.Greet(Connect(), OfRank(5), "note").ok());
  Greeter other(listener_.fd(), Terms(), 0);
  std::future<int> heard = std::async(std::launch::async, [&] {
    const auto news = other.Next({}, SteadyNowNs() + kLongNs);
    return news.has_value() ? news->claim.rank : -1;
  });
  const auto news = greeter.Next({}, SteadyNowNs() + kLongNs);
  ASSERT_TRUE(news.has_value());
  EXPECT_EQ(news->what, What::kAnswered);
  EXPECT_TRUE(static_cast<bool>(news->socket));
  EXPECT_EQ(heard.get(), 5);
}

TEST_F(GreeterTest, SaysWhoHadNoProof) {
  Greeter greeter(-1, Terms(), 5);
  ASSERT_TRUE(greeter.Greet(Connect(), OfRank(5), "note").ok());
  Greeter other(listener_.fd(), Terms("another key"), 0);
  std::future<bool> heard = std::async(std::launch::async, [&] {
    return other.Next({}, SteadyNowNs() + 500 * kMsNs).has_value();
  });
  const auto news = greeter.Next({}, SteadyNowNs() + kLongNs);
  ASSERT_TRUE(news.has_value());
  EXPECT_EQ(news->what, What::kFailed);
  EXPECT_EQ(news->claim.rank, 5);
  EXPECT_FALSE(heard.get());
  EXPECT_EQ(other.strangers(), 1);
  EXPECT_EQ(greeter.strangers(), 0);
}

TEST_F(GreeterTest, TellsWhatElseIsToBeRead) {
  Greeter greeter(listener_.fd(), Terms(), 0);
  const Socket here = Connect();
  const Socket there = AcceptNow(listener_.fd());
  Say(here, "x");
  const int also[] = {-1, there.fd()};
  const auto news = greeter.Next(also, SteadyNowNs() + kLongNs);
  ASSERT_TRUE(news.has_value());
  EXPECT_EQ(news->what, What::kReadable);
  EXPECT_EQ(news->also, 1);
}

}  // namespace
}  // namespace castor
