// A small HTTP server for this machine's own browser.
//
// What reaches it and what it gives, however hostile the page or the process
// that asks:
//  1. It listens on 127.0.0.1 alone.
//  2. The Host header must name this machine and this port: a page of another
//     site, whose name was made to resolve to 127.0.0.1 (DNS rebinding), is
//     refused with 403.
//  3. GET only (405), exact paths only (404); nothing is read from a request
//     but its path and its query. There are no files, no ranges, no uploads.
//  4. Every answer forbids storing it, guessing its type, framing it, and
//     reading it from another origin. A page may load nothing and run no script
//     but its own (see PagePolicy).
//  5. A request has at most kMaxRequestBytes and must arrive, and its answer
//     leave, within the limits of ServerOptions; kThreads are served at once. A
//     slow client costs one of these threads until then, and nobody else.
//
// Built on cpp-httplib, which parses and writes HTTP.
//
// Threads: its own; handlers are called from several at once.
#ifndef CASTOR_CLI_SERVE_LOOPBACK_SERVER_H_
#define CASTOR_CLI_SERVE_LOOPBACK_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/serve/http_reply.h"

namespace castor::cli {

// The query's parameters, decoded; the first of those with one name.
using HttpQuery = std::map<std::string, std::string>;
using HttpHandler = std::function<HttpReply(const HttpQuery& query)>;

struct ServerOptions {
  int port = 0;  // 0: any free one
  // If `port` is taken: take any free one.
  bool any_port_will_do = false;
  std::chrono::milliseconds request_limit{5'000};
  std::chrono::milliseconds answer_limit{60'000};
};

class LoopbackServer {
 public:
  static constexpr int kThreads = 4;
  static constexpr int64_t kMaxRequestBytes = 8192;

  // Serves from now on: `paths` has a handler for each, "/" and so on.
  // InvalidArgument: the port is none, is taken or not for this user.
  static absl::StatusOr<std::unique_ptr<LoopbackServer>> Start(
      const ServerOptions& options, std::map<std::string, HttpHandler> paths);
  // Breaks off what is being answered, and returns when all threads are gone.
  ~LoopbackServer();
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  int port() const { return port_; }
  std::string url() const;  // "http://127.0.0.1:8674/"

 private:
  class Impl;
  LoopbackServer();

  std::unique_ptr<Impl> impl_;
  int port_ = 0;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_SERVE_LOOPBACK_SERVER_H_
