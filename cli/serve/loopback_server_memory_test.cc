// The loopback server without memory: every allocation of its threads in turn
// fails, and it goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string>

#include "cli/serve/http_reply.h"
#include "cli/serve/loopback_server.h"
#include "cli/serve/test_client.h"

namespace {

// The allocations of other threads, or of this one, until one fails; below 0:
// none does.
std::atomic<int64_t> others_left{-1};
thread_local int64_t own_left = -1;
thread_local bool is_test = false;

bool Fails() {
  if (is_test) return own_left >= 0 && own_left-- == 0;
  return others_left.load() >= 0 && others_left.fetch_sub(1) == 0;
}

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = Fails() ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace castor::cli {
namespace {

using ::castor::testing::HttpGet;

std::map<std::string, HttpHandler> Paths() {
  return {{"/", [](const HttpQuery& query) {
             std::string text;
             for (const auto& [name, value] : query) text += name + value;
             return TextReply(200, text);
           }}};
}

TEST(LoopbackServerMemory, AnswersOthersAfterEachAllocationThatFails) {
  is_test = true;
  const auto server = LoopbackServer::Start({}, Paths());
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string url = (*server)->url();
  for (const std::string& asked :
       {url + "?name=" + std::string(100, 'x'), url + "none",
        url.substr(0, url.size() - 2)}) {
    const int whole = HttpGet(asked).status;
    std::map<int, int> statuses;
    bool failed = true;
    for (int64_t allocation = 0; failed; ++allocation) {
      others_left.store(allocation);
      ++statuses[HttpGet(asked).status];
      failed = others_left.exchange(-1) < 0;
      ASSERT_EQ(HttpGet(asked).status, whole) << allocation;
    }
    EXPECT_GT(statuses[500], 5);
    for (const auto& [status, count] : statuses) {
      // 0: there was nothing at all for the connection, which was closed.
      EXPECT_TRUE(status == 0 || status == 500 || status == whole) << status;
    }
  }
}

TEST(LoopbackServerMemory, SaysThatItCannotStart) {
  is_test = true;
  bool failed = true;
  int refused = 0;
  for (int64_t allocation = 0; failed; ++allocation) {
    auto paths = Paths();
    const ServerOptions options;
    own_left = allocation;
    const auto server = LoopbackServer::Start(options, std::move(paths));
    failed = own_left < 0;
    own_left = -1;
    if (server.ok()) continue;
    EXPECT_EQ(server.status().code(), absl::StatusCode::kResourceExhausted);
    ++refused;
  }
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace castor::cli
