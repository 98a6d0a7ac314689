#include "cli/serve/test_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace castor::testing {

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

HttpAnswer HttpSend(int port, absl::string_view request) {
  const TestConnection connection(port);
  CASTOR_CHECK(connection.connected());
  connection.Send(request);
  return connection.Receive();
}

HttpAnswer HttpGet(int port, const std::string& path) {
  return HttpSend(port, absl::StrCat("GET ", path, " HTTP/1.1\r\n",
                                     "Host: 127.0.0.1:", port, "\r\n",
                                     "Accept-Encoding: gzip, deflate, br\r\n",
                                     "Connection: keep-alive\r\n\r\n"));
}

int PortIn(absl::string_view text) {
  constexpr absl::string_view kBefore = "http://127.0.0.1:";
  const size_t at = text.find(kBefore);
  if (at == absl::string_view::npos) return 0;
  return std::atoi(std::string(text.substr(at + kBefore.size(), 5)).c_str());
}

}  // namespace castor::testing
