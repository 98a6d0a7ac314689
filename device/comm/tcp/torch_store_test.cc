#include "device/comm/tcp/torch_store.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "device/comm/socket.h"
#include "device/comm/tcp/tcp_ranks_for_test.h"
#include "device/comm/tcp/tcp_transport.h"

namespace castor {
namespace {

constexpr int64_t kLongNs = 60'000'000'000;

// Does what PyTorch's store does with the requests that are used here. The real
// one was tried by hand, under the torchrun of PyTorch 2.13.
class Store {
 public:
  Store() : listener_(*ListenAt(Loopback(), 16)) {
    acceptor_ = std::thread([this] {
      while (WaitForSocket(listener_.fd(), POLLIN, SteadyNowNs() + kLongNs)) {
        Socket client = AcceptNow(listener_.fd());
        if (!client) continue;
        std::lock_guard<std::mutex> lock(mutex_);
        if (closing_) return;
        threads_.emplace_back(
            [this, client = std::move(client)] { Serve(client); });
      }
    });
  }
  ~Store() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      closing_ = true;
    }
    SocketAddress self = LocalAddress(listener_.fd());
    const auto last = ConnectTo(self, SteadyNowNs() + kLongNs);
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
  }
  int port() const { return LocalAddress(listener_.fd()).port(); }
  std::string value() {
    std::lock_guard<std::mutex> lock(mutex_);
    return values_.empty() ? "" : values_.begin()->second;
  }

 private:
  static bool Take(const Socket& client, void* data, size_t bytes) {
    return ReadAll(client.fd(), data, bytes, SteadyNowNs() + kLongNs).ok();
  }
  static bool TakeText(const Socket& client, std::string* text) {
    uint64_t bytes = 0;
    if (!Take(client, &bytes, sizeof(bytes)) || bytes > 1000) return false;
    text->resize(bytes);
    return Take(client, text->data(), bytes);
  }
  void Serve(const Socket& client) {
    bool validated = false;
    char request = 0;
    std::string key, value;
    while (Take(client, &request, 1)) {
      uint32_t magic = 0;
      uint64_t count = 0;
      if (request == 0 && Take(client, &magic, sizeof(magic))) {
        validated = magic == 0x3c85f7ce;
      } else if (!validated) {
        return;
      } else if (request == 1 && TakeText(client, &key) &&
                 TakeText(client, &value)) {
        std::lock_guard<std::mutex> lock(mutex_);
        values_[key] = value;
        news_.notify_all();
      } else if (request == 6 && Take(client, &count, sizeof(count)) &&
                 count == 1 && TakeText(client, &key)) {
        std::unique_lock<std::mutex> lock(mutex_);
        news_.wait(lock, [&] { return values_.count(key) > 0; });
        const char done = 0;
        WriteAll(client.fd(), &done, 1, SteadyNowNs() + kLongNs).IgnoreError();
      } else if (request == 3 && TakeText(client, &key)) {
        std::lock_guard<std::mutex> lock(mutex_);
        const uint64_t bytes = values_[key].size();
        std::string answer(reinterpret_cast<const char*>(&bytes), 8);
        answer += values_[key];
        WriteAll(client.fd(), answer.data(), answer.size(),
                 SteadyNowNs() + kLongNs)
            .IgnoreError();
      } else {
        return;
      }
    }
  }

  const Socket listener_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::map<std::string, std::string> values_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

std::vector<LaunchEnv> LaunchWithStore(int world_size, int port) {
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(world_size, AF_INET);
  Socket(std::exchange(ranks[0].master_socket, -1)).Reset();
  for (LaunchEnv& rank : ranks) {
    rank.master_port = port;
    rank.master_is_store = true;
  }
  return ranks;
}

TEST(TorchStore, RanksFindEachOtherThroughIt) {
  Store store;
  const std::vector<LaunchEnv> ranks = LaunchWithStore(3, store.port());
  std::vector<std::thread> threads;
  for (const LaunchEnv& rank : ranks) {
    threads.emplace_back([&] {
      TcpOptions options;
      options.take_sigterm = false;
      auto transport = JoinTcp(rank, options);
      ASSERT_TRUE(transport.ok()) << transport.status();
      EXPECT_EQ((*transport)->rank(), rank.rank);
      (*transport)->Close(true);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(store.value(), "");
}

TEST(TorchStore, SaysThatNoStoreIsThere) {
  std::vector<LaunchEnv> ranks = LaunchOnLoopback(2, AF_INET);
  Socket(std::exchange(ranks[0].master_socket, -1)).Reset();
  const absl::Status status =
      FindMasterInTorchStore(ranks[1], 200'000'000).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "torchrun's store at 127."))
      << status;
}

TEST(TorchStore, DoesNotWaitForRankZeroForEver) {
  // A listener that says nothing at all.
  auto silent = ListenAt(Loopback(), 16);
  ASSERT_TRUE(silent.ok());
  const std::vector<LaunchEnv> ranks =
      LaunchWithStore(2, LocalAddress(silent->fd()).port());
  const absl::Status status =
      FindMasterInTorchStore(ranks[1], 200'000'000).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "no answer in time"))
      << status;
}

}  // namespace
}  // namespace castor
