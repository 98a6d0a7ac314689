#include "cli/serve/http_site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/serve/http_request.h"

namespace castor::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
constexpr char kHost[] = "Host: 127.0.0.1:8674\r\n";

std::map<std::string, HttpHandler> Paths() {
  const auto handler = [](const HttpQuery& query) {
    std::string text;
    for (const auto& [name, value] : query) {
      absl::StrAppend(&text, name, "=", value, ";");
    }
    return TextReply(200, text);
  };
  return {{"/", handler}, {"/echo", handler}};
}

class Site : public ::testing::Test {
 protected:
  // The answer to "METHOD PATH HTTP/1.1" with whole header lines; the path as
  // it is.
  HttpReply Raw(const std::string& path, const std::string& lines,
                const std::string& method = "GET") const {
    const HttpSite::Route route = site_.Find(
        absl::StrCat(method, " ", path, " HTTP/1.1\r\n", lines, "\r\n"));
    return route.handler != nullptr ? (*route.handler)(route.query)
                                    : route.refusal;
  }
  int Status(const std::string& lines) const {
    return Raw(absl::StrCat("/", kToken, "/echo"), lines).status;
  }
  int PathStatus(const std::string& path) const {
    return Raw(path, kHost).status;
  }

  const HttpSite site_{8674, kToken, Paths()};
};

TEST_F(Site, AnswersWhoKnowsItsAddress) {
  EXPECT_EQ(site_.url(), absl::StrCat("http://127.0.0.1:8674/", kToken, "/"));
  const std::string path = absl::StrCat("/", kToken,
                                        "/echo?since=12&a=%3Cb%3E"
                                        "&since=3&c=d+e%2&%41&&=f");
  EXPECT_EQ(*Raw(path, kHost).body, "=f;A=;a=<b>;c=d e%2;since=12;");
  EXPECT_EQ(PathStatus(absl::StrCat("/", kToken, "/")), 200);
}

TEST_F(Site, RefusesWhoDoesNotKnowTheToken) {
  const std::string token = kToken;
  for (const std::string& path : std::vector<std::string>{
           "/", "//", "*", "/echo", "/echo?" + token, "/?token=" + token,
           "/favicon.ico", "/" + token.substr(1), "/" + token.substr(0, 31),
           token + "/echo", "//" + token + "/echo", "/x" + token + "/echo",
           "http://127.0.0.1:8674/" + token + "/echo",
           "/0123456789ABCDEF0123456789ABCDEF/echo",
           "/" + token.substr(0, 31) + "%66/echo"}) {
    EXPECT_EQ(PathStatus(path), 403) << path;
  }
  // Whichever digit it is that is wrong.
  for (size_t i = 0; i < token.size(); ++i) {
    std::string wrong = token;
    wrong[i] ^= 1;
    EXPECT_EQ(PathStatus("/" + wrong + "/echo"), 403) << wrong;
  }
  EXPECT_THAT(*Raw("/", kHost).body, HasSubstr("address that castor printed"));
}

TEST_F(Site, RefusesOtherPathsAndMethods) {
  const std::string token = kToken;
  for (const std::string path :
       {"", "/none", "/echo/", "/echo/..", "//", "/../etc/passwd", "/%2e%2e/x",
        "/index.html", "x", "x/echo", "/%65cho", "/echo%00", "/echo#a"}) {
    EXPECT_EQ(PathStatus("/" + token + path), 404) << path;
  }
  for (const std::string method : {"POST", "PUT", "DELETE", "HEAD", "OPTIONS",
                                   "PATCH", "TRACE", "CONNECT", "get"}) {
    EXPECT_EQ(Raw("/" + token + "/echo",
                  absl::StrCat(kHost, "Content-Length: 5\r\n"), method)
                  .status,
              405)
        << method;
    EXPECT_EQ(Raw("/echo", kHost, method).status, 403) << method;
  }
}

TEST_F(Site, RefusesAHostThatIsNotThisMachine) {
  EXPECT_EQ(Status(kHost), 200);
  EXPECT_EQ(Status("host: LocalHost:8674\r\n"), 200);
  for (const std::string lines :
       {"", "Host: \r\n", "Host: evil.example\r\n",
        "Host: evil.example:8674\r\n", "Host: 127.0.0.1.evil.example:8674\r\n",
        "Host: evil.example@127.0.0.1:8674\r\n", "Host: 127.0.0.1:8675\r\n",
        "Host: 127.0.0.1\r\n", "Host: localhost\r\n",
        "Host: 127.0.0.1:8674, evil\r\n"}) {
    EXPECT_EQ(Status(lines), 403) << lines;
  }
  EXPECT_EQ(Status("Host: 127.0.0.1:8674\r\nHost: evil\r\n"), 400);
  // The usual port may be left out.
  const HttpSite usual(80, kToken, Paths());
  EXPECT_NE(usual
                .Find(absl::StrCat("GET /", kToken,
                                   "/ HTTP/1.1\r\nHost: localhost\r\n\r\n"))
                .handler,
            nullptr);
}

TEST_F(Site, RefusesWhatAPageOfAnotherOriginAsks) {
  for (const std::string line :
       {"Origin: http://127.0.0.1:8674", "Sec-Fetch-Site: same-origin",
        "Sec-Fetch-Site: none", "sec-fetch-site: None"}) {
    EXPECT_EQ(Status(absl::StrCat(kHost, line, "\r\n")), 200) << line;
  }
  for (const std::string line :
       {"Origin: http://evil.example", "Origin: null", "Origin: ",
        "Origin: https://127.0.0.1:8674", "Origin: http://127.0.0.1:8675",
        "Origin: http://127.0.0.1", "Origin: http://localhost:8674",
        "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: ", "Sec-Fetch-Site: same-origin, cross-site"}) {
    EXPECT_EQ(Status(absl::StrCat(kHost, line, "\r\n")), 403) << line;
  }
  EXPECT_EQ(Status(absl::StrCat(kHost, "Sec-Fetch-Site: none\r\n",
                                "Sec-Fetch-Site: cross-site\r\n")),
            400);
}

TEST_F(Site, ActsOnNothingElseInARequest) {
  for (const std::string line :
       {"Range: bytes=0-1,0-1,0-1", "Accept-Encoding: br, gzip",
        "Expect: 100-continue\r\nContent-Length: 9",
        "Transfer-Encoding: chunked", "Content-Length: 99999999999",
        "Connection: keep-alive", "Upgrade: h2c"}) {
    EXPECT_EQ(Status(absl::StrCat(kHost, line, "\r\n")), 200) << line;
  }
}

TEST_F(Site, RefusesWhatIsNoRequest) {
  for (const std::string& head : std::vector<std::string>{
           "", "\r\n\r\n", "hello\r\n\r\n", "GET\r\n\r\n",
           "GET / HTTP/9\r\n\r\n", "GET / HTTP/2.0\r\n\r\n",
           "GET  HTTP/1.1\r\n\r\n", "GET /\r\n\r\n",
           std::string(100, '\0') + "\r\n\r\n",
           "GET / HTTP/1.1\r\nno colon\r\n\r\n",
           "GET / HTTP/1.1\r\n: no name\r\n\r\n",
           "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\n",
           "GET / HTTP/1.1\r\nA: " + std::string(9000, 'a') + "\r\n\r\n"}) {
    const HttpSite::Route route = site_.Find(head);
    ASSERT_EQ(route.handler, nullptr) << head;
    EXPECT_EQ(route.refusal.status, 400) << head;
  }
}

TEST(UrlToken, IsAnotherOneEachTime) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) {
    const auto token = MakeUrlToken();
    ASSERT_TRUE(token.ok()) << token.status();
    EXPECT_EQ(token->size(), 32u);
    EXPECT_EQ(token->find_first_not_of("0123456789abcdef"), std::string::npos);
    tokens.insert(*token);
  }
  EXPECT_EQ(tokens.size(), 100u);
}

}  // namespace
}  // namespace castor::cli
