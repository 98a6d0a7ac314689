#include "cli/serve/test_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace castor::testing {
namespace {

constexpr absl::string_view kBefore = "http://127.0.0.1:";

}  // namespace

TestConnection::TestConnection(int port, const std::string& address) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  CASTOR_CHECK(inet_pton(AF_INET, address.c_str(), &to.sin_addr) == 1);
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CASTOR_CHECK(socket_ >= 0);
  connected_ =
      connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
}

TestConnection::~TestConnection() { close(socket_); }

void TestConnection::Send(absl::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the answer, or that there is none, says the rest
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

HttpAnswer TestConnection::Receive() const {
  std::string all;
  char buffer[1 << 16];
  for (ssize_t got; (got = recv(socket_, buffer, sizeof(buffer), 0)) > 0;) {
    all.append(buffer, static_cast<size_t>(got));
  }
  HttpAnswer answer;
  size_t at = all.find("\r\n");
  if (all.rfind("HTTP/1.1 ", 0) != 0 || at == std::string::npos) return answer;
  answer.status = std::atoi(all.c_str() + 9);
  while (true) {
    const size_t from = at + 2;
    at = all.find("\r\n", from);
    if (at == std::string::npos || at == from) break;
    const std::string line = all.substr(from, at - from);
    const size_t colon = line.find(": ");
    answer.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
        line.substr(colon + 2);
  }
  if (at != std::string::npos) answer.body = all.substr(at + 2);
  return answer;
}

void TestConnection::WaitForReset() const {
  pollfd fd = {socket_, 0, 0};  // an error is always told
  while (poll(&fd, 1, -1) != 1 || (fd.revents & POLLERR) == 0) {
  }
}

void TestConnection::WaitUntilClosed(
    int count, const std::vector<std::unique_ptr<TestConnection>>& of) {
  // A negative descriptor, one that was closed, is left out by poll().
  std::vector<pollfd> open;
  for (const auto& connection : of) {
    open.push_back({connection->socket_, POLLRDHUP, 0});
  }
  while (count > 0) {
    if (poll(open.data(), open.size(), -1) <= 0) continue;
    for (pollfd& fd : open) {
      if (fd.fd < 0 || fd.revents == 0) continue;
      fd.fd = -1;
      --count;
    }
  }
}

HttpAnswer HttpSend(int port, absl::string_view request) {
  const TestConnection connection(port);
  CASTOR_CHECK(connection.connected());
  connection.Send(request);
  return connection.Receive();
}

std::string HttpRequestFor(const std::string& url, const std::string& more) {
  return absl::StrCat("GET ", PathOf(url), " HTTP/1.1\r\n",
                      "Host: 127.0.0.1:", PortOf(url), "\r\n",
                      "Accept-Encoding: gzip, deflate, br\r\n",
                      "Sec-Fetch-Site: same-origin\r\n",
                      "Connection: keep-alive\r\n", more, "\r\n");
}

HttpAnswer HttpGet(const std::string& url) {
  return HttpSend(PortOf(url), HttpRequestFor(url));
}

std::string UrlIn(absl::string_view text) {
  const size_t at = text.find(kBefore);
  if (at == absl::string_view::npos) return "";
  text.remove_prefix(at);
  return std::string(text.substr(0, text.find_first_of(" \n")));
}

int PortOf(const std::string& url) {
  CASTOR_CHECK(absl::StartsWith(url, kBefore));
  return std::atoi(url.c_str() + kBefore.size());
}

std::string PathOf(const std::string& url) {
  CASTOR_CHECK(absl::StartsWith(url, kBefore));
  return url.substr(url.find('/', kBefore.size()));
}

}  // namespace castor::testing
