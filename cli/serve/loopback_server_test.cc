#include "cli/serve/loopback_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_threads.h"
#include "cli/serve/http_request.h"
#include "cli/serve/test_client.h"

namespace castor::cli {
namespace {

using ::castor::testing::HttpAnswer;
using ::castor::testing::HttpGet;
using ::castor::testing::HttpRequestFor;
using ::castor::testing::HttpSend;
using ::castor::testing::PathOf;
using ::castor::testing::TestConnection;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// Nothing ends by itself: where one client has to wait for another, a test
// waits for ever.
constexpr ServerOptions kPatient = {.request_limit = std::chrono::hours(1),
                                    .answer_limit = std::chrono::hours(1)};
// More than the system takes for a client that does not read.
constexpr size_t kLarge = 10 << 20;
constexpr char kPage[] = "<!doctype html><script>1</script>";

std::map<std::string, HttpHandler> Paths() {
  return {
      {"/",
       [](const HttpQuery&) {
         return PageReply(std::make_shared<const std::string>(kPage));
       }},
      {"/echo",
       [](const HttpQuery& query) {
         std::string text;
         for (const auto& [name, value] : query) {
           absl::StrAppend(&text, name, "=", value, ";");
         }
         return TextReply(200, text);
       }},
      {"/large",
       [](const HttpQuery&) {
         return JsonReply(
             std::make_shared<const std::string>(std::string(kLarge, 'x')));
       }},
      {"/empty", [](const HttpQuery&) { return HttpReply(); }},
      {"/throws",
       [](const HttpQuery&) -> HttpReply { throw std::bad_alloc(); }},
  };
}

std::unique_ptr<LoopbackServer> Start(ServerOptions options = {}) {
  auto server = LoopbackServer::Start(options, Paths());
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(LoopbackServer, AnswersEachPathWithHeadersThatKeepItToItself) {
  const auto server = Start();
  EXPECT_THAT(server->url(), MatchesRegex(absl::StrCat(
                                 "http://127\\.0\\.0\\.1:", server->port(),
                                 "/[0-9a-f]{32}/")));
  const HttpAnswer page = HttpGet(server->url());
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, kPage);
  for (const std::string path : {"", "echo?a=1", "empty", "none", "../echo"}) {
    HttpAnswer answer = HttpGet(server->url() + path);
    EXPECT_EQ(answer.headers["content-length"],
              absl::StrCat(answer.body.size()));
    EXPECT_EQ(answer.headers["cache-control"], "no-store");
    EXPECT_EQ(answer.headers["x-content-type-options"], "nosniff");
    EXPECT_EQ(answer.headers["x-frame-options"], "DENY");
    EXPECT_EQ(answer.headers["referrer-policy"], "no-referrer");
    EXPECT_EQ(answer.headers["cross-origin-resource-policy"], "same-origin");
    EXPECT_EQ(answer.headers["connection"], "close");
    EXPECT_THAT(answer.headers["content-security-policy"],
                HasSubstr("default-src 'none'"));
    EXPECT_EQ(answer.headers.count("access-control-allow-origin"), 0u);
    EXPECT_EQ(answer.headers.count("content-encoding"), 0u);
  }
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(page.headers.at("content-security-policy"), PagePolicy(kPage));
}

TEST(LoopbackServer, HasATokenOfItsOwn) {
  const auto server = Start(), other = Start();
  const std::string token = PathOf(server->url());
  EXPECT_NE(token, PathOf(other->url()));
  const std::string here = absl::StrCat("http://127.0.0.1:", server->port());
  EXPECT_EQ(HttpGet(here + token + "echo").status, 200);
  EXPECT_EQ(HttpGet(here + PathOf(other->url()) + "echo").status, 403);
  EXPECT_EQ(HttpGet(here + "/echo").status, 403);
  EXPECT_EQ(HttpGet(server->url() + "none").status, 404);
  EXPECT_EQ(HttpSend(server->port(),
                     HttpRequestFor(server->url(), "Origin: http://a.b\r\n"))
                .status,
            403);
}

// Every address of this machine but 127.0.0.1 finds nobody.
TEST(LoopbackServer, ListensOnLoopbackAlone) {
  const auto server = Start();
  EXPECT_TRUE(TestConnection(server->port()).connected());
  EXPECT_FALSE(TestConnection(server->port(), "127.0.0.2").connected());
  ifaddrs* addresses = nullptr;
  ASSERT_EQ(getifaddrs(&addresses), 0);
  for (const ifaddrs* a = addresses; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || a->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(a->ifa_addr)->sin_addr,
              text, sizeof(text));
    EXPECT_EQ(TestConnection(server->port(), text).connected(),
              std::string(text) == "127.0.0.1")
        << text;
  }
  freeifaddrs(addresses);
}

TEST(LoopbackServer, SurvivesWhatIsNoRequest) {
  const auto server = Start();
  const int port = server->port();
  for (const std::string& bytes : std::vector<std::string>{
           "\r\n\r\n", "hello\r\n\r\n", std::string(100, '\0') + "\r\n\r\n",
           "GET / HTTP/9\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n"}) {
    EXPECT_EQ(HttpSend(port, bytes).status, 400) << bytes;
  }
  { const TestConnection silent(port); }
  EXPECT_EQ(HttpGet(server->url() + "echo").status, 200);
}

// The request has no end. Its client is told so after kMaxRequestBytes,
// whatever more is sent.
TEST(LoopbackServer, RefusesARequestThatIsTooLarge) {
  const auto server = Start(kPatient);
  std::string many = "GET /echo HTTP/1.1\r\n";
  while (many.size() < 100'000) many += "a: b\r\n";
  for (const std::string& bytes : std::vector<std::string>{
           "GET /" + std::string(100'000, 'a'), many,
           "GET / HTTP/1.1\r\nHost: " + std::string(100'000, 'a'),
           std::string(100'000, '\n')}) {
    EXPECT_EQ(HttpSend(server->port(), bytes).status, 431);
  }
  // The largest that is none of these.
  const std::string url = server->url() + "echo";
  const std::string filler(
      kMaxRequestBytes - HttpRequestFor(url, "Filler: \r\n").size(), 'a');
  EXPECT_EQ(HttpSend(server->port(),
                     HttpRequestFor(url, "Filler: " + filler + "\r\n"))
                .status,
            200);
  EXPECT_EQ(HttpSend(server->port(),
                     HttpRequestFor(url, "Filler: " + filler + "a\r\n"))
                .status,
            431);
}

// A request that is sent byte by byte is a request.
TEST(LoopbackServer, TakesARequestInPieces) {
  const auto server = Start();
  const TestConnection client(server->port());
  for (const char c : HttpRequestFor(server->url() + "echo?a=1")) {
    client.Send(absl::string_view(&c, 1));
  }
  EXPECT_EQ(client.Receive().body, "a=1;");
}

// More clients than there are threads, or room for strangers, that say nothing
// or half a request: all of them stay as long as there is room, and none keeps
// anybody waiting.
TEST(LoopbackServer, ServesOthersBesideClientsThatAreSilent) {
  const auto server = Start(kPatient);
  std::vector<std::unique_ptr<TestConnection>> silent;
  for (int i = 0; i < LoopbackServer::kMaxStrangers + 8; ++i) {
    silent.push_back(std::make_unique<TestConnection>(server->port()));
    ASSERT_TRUE(silent.back()->connected());
    if (i % 2 == 0) silent.back()->Send("GET /echo HTT");
    EXPECT_EQ(HttpGet(server->url() + "echo").status, 200);
  }
  // The connections that had been silent for longest gave way.
  for (int i = 0; i < 8; ++i) EXPECT_EQ(silent[i]->Receive().status, 0);
}

// A byte now and then keeps no connection beyond the limit.
TEST(LoopbackServer, CutsOffAClientThatDrips) {
  const auto server = Start({.request_limit = std::chrono::milliseconds(100)});
  const TestConnection drip(server->port()), silent(server->port());
  std::atomic<bool> over{false};
  std::thread sender([&] {
    drip.Send("GET /echo HTTP/1.1\r\nHost: ");
    while (!over.load()) {
      drip.Send("a");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  EXPECT_EQ(drip.Receive().status, 408);
  EXPECT_EQ(silent.Receive().status, 0);
  over.store(true);
  sender.join();
}

// More than there are threads, or room for guests, who know the token and take
// nothing of an answer that fits into no buffer.
TEST(LoopbackServer, ServesOthersBesideClientsThatDoNotRead) {
  const auto server = Start(kPatient);
  std::vector<std::unique_ptr<TestConnection>> slow;
  for (int i = 0; i < LoopbackServer::kMaxGuests + 8; ++i) {
    slow.push_back(std::make_unique<TestConnection>(server->port()));
    slow.back()->Send(HttpRequestFor(server->url() + "large"));
    EXPECT_EQ(HttpGet(server->url() + "echo").status, 200);
  }
  EXPECT_EQ(HttpGet(server->url() + "large").body.size(), kLarge);
  // Some have given way: the first, or others whose answers, on a busy machine,
  // stood still before theirs. The last to come is still answered whole.
  TestConnection::WaitUntilClosed(8, slow);
  EXPECT_EQ(slow.back()->Receive().body.size(), kLarge);
}

// Clients that do not know the token never cost an answer to clients that do.
TEST(LoopbackServer, KeepsGuestsHoweverManyStrangersCome) {
  const auto server = Start(kPatient);
  const TestConnection guest(server->port());
  guest.Send(HttpRequestFor(server->url() + "large"));
  std::vector<std::unique_ptr<TestConnection>> strangers;
  for (int i = 0; i < 4 * LoopbackServer::kMaxStrangers; ++i) {
    strangers.push_back(std::make_unique<TestConnection>(server->port()));
    strangers.back()->Send(i % 2 == 0 ? "GET /large HTTP/1.1\r\n"
                                      : "GET /large HTTP/1.1\r\n\r\n");
  }
  EXPECT_EQ(HttpGet(server->url() + "echo").status, 200);
  EXPECT_EQ(guest.Receive().body.size(), kLarge);
}

TEST(LoopbackServer, CutsOffAnAnswerThatNobodyTakes) {
  const auto server = Start({.answer_limit = std::chrono::milliseconds(50)});
  const TestConnection slow(server->port());
  slow.Send(HttpRequestFor(server->url() + "large"));
  slow.WaitForReset();
  EXPECT_LT(slow.Receive().body.size(), kLarge);
}

// Handlers that take long, as many as there are threads but one.
TEST(LoopbackServer, ServesOthersWhileHandlersCompute) {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  bool over = false;
  auto paths = Paths();
  paths["/slow"] = [&](const HttpQuery&) {
    std::unique_lock<std::mutex> lock(mutex);
    ++inside;
    changed.notify_all();
    changed.wait(lock, [&] { return over; });
    return TextReply(200, "slow");
  };
  auto server = LoopbackServer::Start(kPatient, paths);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string url = (*server)->url();
  std::vector<std::thread> clients;
  for (int i = 0; i < LoopbackServer::kThreads - 1; ++i) {
    clients.emplace_back(
        [&] { EXPECT_EQ(HttpGet(url + "slow").body, "slow"); });
  }
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return inside == LoopbackServer::kThreads - 1; });
  }
  EXPECT_EQ(HttpGet(url + "echo").status, 200);
  // With the last thread at work, too, refusals still come at once.
  std::thread last([&] { EXPECT_EQ(HttpGet(url + "slow").body, "slow"); });
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return inside == LoopbackServer::kThreads; });
  }
  EXPECT_EQ(HttpGet(url + "none").status, 404);
  {
    std::lock_guard<std::mutex> lock(mutex);
    over = true;
  }
  changed.notify_all();
  last.join();
  for (std::thread& client : clients) client.join();
}

TEST(LoopbackServer, SaysThatAHandlerFailedAndGoesOn) {
  const auto server = Start();
  for (int i = 0; i < 2 * LoopbackServer::kThreads; ++i) {
    EXPECT_EQ(HttpGet(server->url() + "throws").status, 500);
  }
  EXPECT_EQ(HttpGet(server->url() + "echo").status, 200);
}

TEST(LoopbackServer, SaysThatThereIsNoThread) {
  for (int threads = 0; threads <= LoopbackServer::kThreads; ++threads) {
    const FewThreads few(threads);
    const auto server = LoopbackServer::Start({}, Paths());
    EXPECT_EQ(server.status().code(), absl::StatusCode::kResourceExhausted)
        << threads;
  }
  EXPECT_EQ(HttpGet(Start()->url() + "echo").status, 200);
}

// The client takes the last descriptor (unless the server closes that of the
// client before it only now); a silent one gives up its own.
TEST(LoopbackServer, MakesRoomWhereThereAreNoDescriptors) {
  const auto server = Start(kPatient);
  const TestConnection silent(server->port());
  EXPECT_EQ(HttpGet(server->url() + "echo").status, 200);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> taken;
  for (int fd; (fd = dup(STDIN_FILENO)) >= 0;) taken.push_back(fd);
  ASSERT_FALSE(taken.empty());
  close(taken.back());
  taken.pop_back();
  EXPECT_EQ(HttpGet(server->url() + "echo").status, 200);
  for (const int fd : taken) close(fd);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(LoopbackServer, SendsLargeAnswersWhole) {
  const auto server = Start();
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&] {
      EXPECT_EQ(HttpGet(server->url() + "large").body.size(), kLarge);
    });
  }
  for (std::thread& client : clients) client.join();
}

// One client has half sent a request, one does not take its answer, one is in
// the line.
TEST(LoopbackServer, StopsWhateverClientsDo) {
  std::vector<std::unique_ptr<TestConnection>> clients;
  {
    const auto server = Start();
    for (int i = 0; i < 8; ++i) {
      clients.push_back(std::make_unique<TestConnection>(server->port()));
      clients.back()->Send(
          i % 2 == 0 ? "GET /la" : HttpRequestFor(server->url() + "large"));
    }
  }
  for (const auto& client : clients) {
    EXPECT_LT(client->Receive().body.size(), kLarge);
  }
}

TEST(LoopbackServer, StartsAndStopsAgainAndAgain) {
  for (int i = 0; i < 50; ++i) {
    const auto server = Start();
    if (i % 2 == 0) {
      EXPECT_EQ(HttpGet(server->url() + "echo").status, 200);
    }
  }
}

TEST(LoopbackServer, TakesThePortAskedForOrSaysWhyNot) {
  const auto first = Start();
  const auto taken = LoopbackServer::Start({.port = first->port()}, Paths());
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(taken.status().message()),
              HasSubstr(absl::StrCat("port ", first->port(), " ")));
  EXPECT_THAT(std::string(taken.status().message()),
              HasSubstr("Address already in use"));
  const auto other = Start({.port = first->port(), .any_port_will_do = true});
  EXPECT_NE(other->port(), first->port());
  for (const int port : {-1, 65536}) {
    EXPECT_THAT(
        std::string(
            LoopbackServer::Start({.port = port}, Paths()).status().message()),
        HasSubstr("65535"));
  }
}

TEST(LoopbackServer, LeavesTheProcessItsSignals) {
  struct sigaction action;
  const auto server = Start();
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &action), 0);
  EXPECT_TRUE(action.sa_handler == SIG_DFL);
  // Clients that go away while they are answered do not end it.
  for (int i = 0; i < 20; ++i) {
    TestConnection client(server->port());
    client.Send(HttpRequestFor(server->url() + "large"));
  }
  EXPECT_EQ(HttpGet(server->url() + "echo").status, 200);
}

}  // namespace
}  // namespace castor::cli
