// The client's end of a loopback connection, for tests: sends exactly the bytes
// that a test gives. Fails the test where it cannot connect.
#ifndef CASTOR_CLI_SERVE_TEST_CLIENT_H_
#define CASTOR_CLI_SERVE_TEST_CLIENT_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace castor::testing {

struct HttpAnswer {
  int status = 0;  // 0: the connection was closed without an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class TestConnection {
 public:
  // Connects to `address`, which is numeric. `connected()` is false where it is
  // refused.
  explicit TestConnection(int port, const std::string& address = "127.0.0.1");
  ~TestConnection();
  TestConnection(const TestConnection&) = delete;
  TestConnection& operator=(const TestConnection&) = delete;

  bool connected() const { return connected_; }
  void Send(absl::string_view bytes) const;
  // Returns all that comes until the other end closes.
  HttpAnswer Receive() const;
  // Waits until the other end breaks it off; reads nothing.
  void WaitForReset() const;
  // Waits until the other end has closed `count` of them, with or without a
  // part of an answer; reads nothing.
  static void WaitUntilClosed(
      int count, const std::vector<std::unique_ptr<TestConnection>>& of);

 private:
  int socket_ = -1;
  bool connected_ = false;
};

// Returns the request that a browser sends for "http://127.0.0.1:PORT/PATH",
// one of the server's own pages; `more` are further whole header lines.
std::string HttpRequestFor(const std::string& url,
                           const std::string& more = "");
// Sends that request and returns the answer.
HttpAnswer HttpGet(const std::string& url);
// Sends a whole request of the test's own.
HttpAnswer HttpSend(int port, absl::string_view request);

// Returns the first "http://127.0.0.1:PORT/..." in `text`, up to a space or the
// line's end; "": none.
std::string UrlIn(absl::string_view text);
// Return PORT and "/PATH" of "http://127.0.0.1:PORT/PATH".
int PortOf(const std::string& url);
std::string PathOf(const std::string& url);

}  // namespace castor::testing

#endif  // CASTOR_CLI_SERVE_TEST_CLIENT_H_
