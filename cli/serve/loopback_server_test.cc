#include "cli/serve/loopback_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/serve/test_client.h"

namespace castor::cli {
namespace {

using ::castor::testing::HttpAnswer;
using ::castor::testing::HttpGet;
using ::castor::testing::HttpSend;
using ::castor::testing::PortIn;
using ::castor::testing::TestConnection;
using ::testing::HasSubstr;

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
             std::make_shared<const std::string>(std::string(20 << 20, 'x')));
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

std::string Request(int port, const std::string& more = "") {
  return absl::StrCat("GET /echo HTTP/1.1\r\nHost: localhost:", port, "\r\n",
                      more, "\r\n");
}

TEST(LoopbackServer, AnswersEachPathWithHeadersThatKeepItToItself) {
  const auto server = Start();
  EXPECT_EQ(PortIn(server->url()), server->port());
  const HttpAnswer page = HttpGet(server->port(), "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, kPage);
  for (const std::string path : {"/", "/echo?a=1", "/empty", "/none"}) {
    HttpAnswer answer = HttpGet(server->port(), path);
    EXPECT_EQ(answer.headers["content-length"],
              absl::StrCat(answer.body.size()));
    EXPECT_EQ(answer.headers["cache-control"], "no-store");
    EXPECT_EQ(answer.headers["x-content-type-options"], "nosniff");
    EXPECT_EQ(answer.headers["x-frame-options"], "DENY");
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

TEST(LoopbackServer, DecodesTheQueryAndTakesTheFirstOfAName) {
  const auto server = Start();
  EXPECT_EQ(HttpGet(server->port(), "/echo?since=12&a=%3Cb%3E&since=3").body,
            "a=<b>;since=12;");
}

TEST(LoopbackServer, RefusesOtherPathsAndMethods) {
  const auto server = Start();
  const int port = server->port();
  for (const std::string path :
       {"/none", "/echo/", "/echo/..", "//", "/../etc/passwd", "/%2e%2e/x",
        "/index.html", "*", "http://example.org/", "/echo%00"}) {
    EXPECT_EQ(HttpGet(port, path).status, 404) << path;
  }
  for (const std::string method : {"POST", "PUT", "DELETE", "HEAD", "OPTIONS",
                                   "PATCH", "TRACE", "CONNECT"}) {
    const HttpAnswer answer = HttpSend(
        port, absl::StrCat(method, " /echo HTTP/1.1\r\nHost: 127.0.0.1:", port,
                           "\r\nContent-Length: 5\r\n\r\nhello"));
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_EQ(answer.headers.at("allow"), "GET");
  }
}

TEST(LoopbackServer, RefusesAHostThatIsNotThisMachine) {
  const auto server = Start();
  const int port = server->port();
  const auto status = [&](const std::string& lines) {
    return HttpSend(port, absl::StrCat("GET /echo HTTP/1.1\r\n", lines, "\r\n"))
        .status;
  };
  EXPECT_EQ(status(absl::StrCat("Host: 127.0.0.1:", port, "\r\n")), 200);
  EXPECT_EQ(status(absl::StrCat("host: LocalHost:", port, "\r\n")), 200);
  for (const std::string& lines : std::vector<std::string>{
           "", "Host: \r\n", "Host: evil.example\r\n",
           absl::StrCat("Host: evil.example:", port, "\r\n"),
           absl::StrCat("Host: 127.0.0.1.evil.example:", port, "\r\n"),
           absl::StrCat("Host: evil.example@127.0.0.1:", port, "\r\n"),
           absl::StrCat("Host: 127.0.0.1:", port, "\r\nHost: evil\r\n"),
           absl::StrCat("Host: 127.0.0.1:", port ^ 1, "\r\n"),
           "Host: 127.0.0.1\r\n", "Host: localhost\r\n"}) {
    EXPECT_EQ(status(lines), 403) << lines;
  }
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

TEST(LoopbackServer, ActsOnNothingElseInARequest) {
  const auto server = Start();
  const int port = server->port();
  // Parts, compression, a promise of a body: answered whole and at once.
  for (const std::string more :
       {"Range: bytes=0-1,0-1,0-1\r\n", "Accept-Encoding: br, gzip\r\n",
        "Expect: 100-continue\r\nContent-Length: 9\r\n",
        "Transfer-Encoding: chunked\r\n", "Content-Length: 99999999999\r\n",
        "Content-Length: -1\r\n", "Connection: keep-alive\r\n"}) {
    EXPECT_EQ(HttpSend(port, Request(port, more)).status, 200) << more;
  }
}

TEST(LoopbackServer, SurvivesWhatIsNoRequest) {
  const auto server = Start();
  const int port = server->port();
  std::string parts = "Range: bytes=0-1";
  while (parts.size() < 7000) parts += ",0-1";
  for (const std::string& bytes : std::vector<std::string>{
           "", "\r\n\r\n", "hello\r\n\r\n", "GET\r\n\r\n",
           "GET / HTTP/9\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
           std::string(100, '\0') + "\r\n\r\n",
           "GET /?a=1?b=2 HTTP/1.1\r\n\r\n", "GET /%zz%u HTTP/1.1\r\n\r\n",
           Request(port, "Range: pieces\r\n"), Request(port, parts + "\r\n"),
           Request(port, "no colon\r\n"), Request(port, ": no name\r\n")}) {
    // Closed by us, so that what has no end has one.
    TestConnection connection(port);
    connection.Send(bytes);
    if (bytes.empty()) continue;
    const int status = connection.Receive().status;
    EXPECT_TRUE(status == 200 || (status >= 400 && status < 500))
        << status << " to " << bytes.substr(0, 40);
  }
  // Without an end: cut off at kMaxRequestBytes, with or without an answer.
  for (const std::string& bytes : std::vector<std::string>{
           "GET /" + std::string(100'000, 'a'),
           "GET / HTTP/1.1\r\nHost: " + std::string(100'000, 'a'),
           std::string(100'000, '\n')}) {
    TestConnection connection(port);
    connection.Send(bytes);
    EXPECT_NE(connection.Receive().status, 200);
  }
  std::string many = "GET /echo HTTP/1.1\r\n";
  while (many.size() < 100'000) many += "a: b\r\n";
  EXPECT_NE(HttpSend(port, many + "\r\n").status, 200);
  EXPECT_EQ(HttpGet(port, "/throws").status, 500);
  EXPECT_EQ(HttpGet(port, "/echo").status, 200);
}

// More clients than threads that send half a request and then nothing: each
// costs its thread until the limit, then all others are served.
TEST(LoopbackServer, ServesOthersBesideClientsThatHang) {
  const auto server = Start({.request_limit = std::chrono::milliseconds(100)});
  std::vector<std::unique_ptr<TestConnection>> hanging;
  for (int i = 0; i < 3 * LoopbackServer::kThreads; ++i) {
    hanging.push_back(std::make_unique<TestConnection>(server->port()));
    hanging.back()->Send("GET /echo HTT");
  }
  EXPECT_EQ(HttpGet(server->port(), "/echo").status, 200);
  for (const auto& connection : hanging) {
    EXPECT_EQ(connection->Receive().status, 0);
  }
}

// A byte now and then keeps no connection beyond the limit either.
TEST(LoopbackServer, CutsOffAClientThatDrips) {
  const auto server = Start({.request_limit = std::chrono::milliseconds(100)});
  TestConnection drip(server->port());
  std::atomic<bool> over{false};
  std::thread sender([&] {
    drip.Send("GET /echo HTTP/1.1\r\nHost: ");
    while (!over.load()) {
      drip.Send("a");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  EXPECT_EQ(drip.Receive().status, 400);
  over.store(true);
  sender.join();
}

TEST(LoopbackServer, SendsLargeAnswersWhole) {
  const auto server = Start();
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&] {
      EXPECT_EQ(HttpGet(server->port(), "/large").body.size(), 20u << 20);
    });
  }
  for (std::thread& client : clients) client.join();
}

// With a request half sent, an answer that nobody takes, and one in the line.
TEST(LoopbackServer, StopsWhateverClientsDo) {
  std::vector<std::unique_ptr<TestConnection>> clients;
  {
    const auto server = Start();
    for (int i = 0; i < 8; ++i) {
      clients.push_back(std::make_unique<TestConnection>(server->port()));
      clients.back()->Send(
          i % 2 == 0 ? "GET /la"
                     : absl::StrCat("GET /large HTTP/1.1\r\nHost: localhost:",
                                    server->port(), "\r\n\r\n"));
    }
  }
  for (const auto& client : clients) {
    EXPECT_LT(client->Receive().body.size(), 20u << 20);
  }
}

TEST(LoopbackServer, StartsAndStopsAgainAndAgain) {
  for (int i = 0; i < 50; ++i) {
    const auto server = Start();
    if (i % 2 == 0) {
      EXPECT_EQ(HttpGet(server->port(), "/echo").status, 200);
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
    client.Send(absl::StrCat(
        "GET /large HTTP/1.1\r\nHost: localhost:", server->port(), "\r\n\r\n"));
  }
  EXPECT_EQ(HttpGet(server->port(), "/echo").status, 200);
}

}  // namespace
}  // namespace castor::cli
