#include "device/comm/tcp/tcp_transport.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "device/comm/socket.h"
#include "device/comm/tcp/tcp_ranks_for_test.h"

namespace castor {
namespace {

constexpr int64_t kLongNs = 60'000'000'000;
// More than a socket's buffer takes at once.
constexpr int64_t kLarge = 12'000'000;

// Bytes of a period that fits no buffer, and fast to make under sanitizers.
std::vector<char> Pattern(int64_t bytes, int64_t seed) {
  constexpr int64_t kPeriod = 251;
  std::vector<char> pattern(bytes);
  for (int64_t i = 0; i < std::min(kPeriod, bytes); ++i) {
    pattern[i] = static_cast<char>(i * 7 + seed);
  }
  for (int64_t n = kPeriod; n < bytes; n *= 2) {
    std::memcpy(pattern.data() + n, pattern.data(), std::min(n, bytes - n));
  }
  return pattern;
}

// Polls until `count` messages are over, or something is wrong.
absl::Status Await(Transport& transport, size_t count,
                   std::vector<int64_t>* done) {
  while (done->size() < count) {
    const absl::Status status = transport.Poll(kLongNs, false, done);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

TEST(TcpTransport, MessagesOfALaneComeInOrderWhateverTheirSizes) {
  // The sizes go from a byte to more than any socket's buffer takes at once.
  const std::vector<int64_t> sizes = {1, 7, 8, 9, 4096, 1, 100'000, kLarge};
  RunTcpRanks(2, AF_INET, {}, [&](std::unique_ptr<Transport> transport) {
    const int other = 1 - transport->rank();
    std::vector<std::vector<char>> out, in;
    for (size_t i = 0; i < sizes.size(); ++i) {
      out.push_back(
          Pattern(sizes[i], static_cast<int64_t>(i) + transport->rank()));
      in.emplace_back(sizes[i]);
    }
    const int64_t n = static_cast<int64_t>(sizes.size());
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_TRUE(
          transport->Send(other, Lane::kPayload, out[i].data(), sizes[i], i)
              .ok());
      ASSERT_TRUE(
          transport
              ->Receive(other, Lane::kPayload, in[i].data(), sizes[i], n + i)
              .ok());
    }
    std::vector<int64_t> done;
    const absl::Status status = Await(*transport, 2 * sizes.size(), &done);
    ASSERT_TRUE(status.ok()) << status;
    // Tokens of what was sent come in order, and so do those of what was
    // received.
    std::vector<int64_t> sent, received;
    for (const int64_t token : done) {
      (token < n ? sent : received).push_back(token);
    }
    std::vector<int64_t> expected(n);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(sent, expected);
    std::iota(expected.begin(), expected.end(), n);
    EXPECT_EQ(received, expected);
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_TRUE(in[i] == Pattern(sizes[i], i + other)) << "message " << i;
    }
    transport->Close(true);
  });
}

TEST(TcpTransport, LanesDoNotWaitForEachOther) {
  RunTcpRanks(2, AF_INET, {}, [&](std::unique_ptr<Transport> transport) {
    const int other = 1 - transport->rank();
    // The other does not take it before it has the small one.
    std::vector<char> large(3 * kLarge, 'l'), other_large(large.size());
    char small = 's', other_small = 0;
    ASSERT_TRUE(transport
                    ->Send(other, Lane::kPayload, large.data(),
                           static_cast<int64_t>(large.size()), 0)
                    .ok());
    ASSERT_TRUE(transport->Send(other, Lane::kHeader, &small, 1, 1).ok());
    ASSERT_TRUE(
        transport->Receive(other, Lane::kHeader, &other_small, 1, 2).ok());
    std::vector<int64_t> done;
    while (std::count(done.begin(), done.end(), 2) == 0) {
      ASSERT_TRUE(transport->Poll(kLongNs, false, &done).ok());
    }
    EXPECT_EQ(other_small, 's');
    ASSERT_TRUE(transport
                    ->Receive(other, Lane::kPayload, other_large.data(),
                              static_cast<int64_t>(large.size()), 3)
                    .ok());
    ASSERT_TRUE(Await(*transport, 4, &done).ok());
    EXPECT_EQ(other_large, large);
    transport->Close(true);
  });
}

TEST(TcpTransport, PollWithoutPatienceStillMakesProgress) {
  RunTcpRanks(2, AF_INET, {}, [&](std::unique_ptr<Transport> transport) {
    const int other = 1 - transport->rank();
    std::vector<char> out(3'000'000, 'x'), in(out.size());
    const int64_t bytes = static_cast<int64_t>(out.size());
    ASSERT_TRUE(
        transport->Send(other, Lane::kPayload, out.data(), bytes, 0).ok());
    ASSERT_TRUE(
        transport->Receive(other, Lane::kPayload, in.data(), bytes, 1).ok());
    std::vector<int64_t> done;
    while (done.size() < 2) ASSERT_TRUE(transport->Poll(0, true, &done).ok());
    EXPECT_EQ(in, out);
    transport->Close(true);
  });
}

TEST(TcpTransport, MessageOfAnotherSizeIsAnErrorAndOverrunsNothing) {
  std::barrier both(2);
  RunTcpRanks(2, AF_INET, {}, [&](std::unique_ptr<Transport> transport) {
    std::vector<char> bytes(100, 'b');
    if (transport->rank() == 0) {
      ASSERT_TRUE(
          transport->Send(1, Lane::kPayload, bytes.data(), 100, 0).ok());
      std::vector<int64_t> done;
      ASSERT_TRUE(Await(*transport, 1, &done).ok());
      both.arrive_and_wait();
    } else {
      std::vector<char> room(100, 'r');
      ASSERT_TRUE(
          transport->Receive(0, Lane::kPayload, room.data(), 50, 0).ok());
      std::vector<int64_t> done;
      const absl::Status status = Await(*transport, 1, &done);
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), "100 bytes from rank 0"))
          << status;
      EXPECT_EQ(std::string(room.begin() + 50, room.end()),
                std::string(50, 'r'));
      both.arrive_and_wait();
    }
    transport->Abandon();
    transport->Close(false);
  });
}

TEST(TcpTransport, DeathOfARankEndsEverybodysWaitAndNamesIt) {
  for (const int dying : {0, 2}) {
    std::mutex mutex;
    int told = 0;
    TcpOptions options;
    options.on_death = [&](absl::string_view text) {
      std::lock_guard<std::mutex> lock(mutex);
      EXPECT_TRUE(absl::StartsWith(
          text, "rank " + std::to_string(dying) + " (process "))
          << text;
      ++told;
    };
    RunTcpRanks(3, AF_INET, options, [&](std::unique_ptr<Transport> transport) {
      if (transport->rank() == dying) return;  // its sockets are closed
      char byte = 'b';
      // It receives from the rank that lives: the dead one is not even asked.
      const int other = 3 - dying - transport->rank();
      ASSERT_TRUE(transport->Receive(other, Lane::kHeader, &byte, 1, 0).ok());
      std::vector<int64_t> done;
      const absl::Status status = Await(*transport, 1, &done);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_TRUE(absl::StrContains(status.message(), "died")) << status;
      EXPECT_TRUE(absl::StartsWith(
          status.message(), "rank " + std::to_string(dying) + " (process "))
          << status;
      EXPECT_EQ(transport->Failure(), status);
      transport->Abandon();
      transport->Close(false);
    });
    EXPECT_EQ(told, 1);
  }
}

TEST(TcpTransport, AnnouncementReachesARankThatIsWaiting) {
  std::barrier all(3);
  RunTcpRanks(3, AF_INET, {}, [&](std::unique_ptr<Transport> transport) {
    if (transport->rank() == 1) {
      transport->Announce(absl::DataLossError("a torn page"));
    }
    char byte = 'b';
    const int other = (transport->rank() + 1) % 3;
    ASSERT_TRUE(transport->Receive(other, Lane::kHeader, &byte, 1, 0).ok());
    std::vector<int64_t> done;
    EXPECT_EQ(Await(*transport, 1, &done), absl::DataLossError("a torn page"));
    transport->Abandon();
    all.arrive_and_wait();
    transport->Close(false);
  });
}

TEST(TcpTransport, OrderlyEndIsNobodysDeath) {
  std::mutex mutex;
  std::string told;
  TcpOptions options;
  options.on_death = [&](absl::string_view text) {
    std::lock_guard<std::mutex> lock(mutex);
    told += std::string(text);
  };
  std::barrier all(4);
  RunTcpRanks(4, AF_INET, options, [&](std::unique_ptr<Transport> transport) {
    all.arrive_and_wait();
    transport->Close(true);
    EXPECT_TRUE(transport->Failure().ok()) << transport->Failure();
  });
  EXPECT_EQ(told, "");
}

TEST(TcpTransport, RefusesNoTime) {
  const std::vector<LaunchEnv> ranks = LaunchOnLoopback(1, AF_INET);
  const Socket owner(ranks[0].master_socket);
  for (const int64_t limit_ns : {int64_t{0}, int64_t{-1}}) {
    TcpOptions options;
    options.connect_limit_ns = limit_ns;
    EXPECT_EQ(JoinTcp(ranks[0], options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace castor
