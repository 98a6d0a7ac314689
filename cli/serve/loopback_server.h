// A small HTTP server for this machine's own browser.
//
// These rules hold however hostile the page or the process that asks:
//  1. It listens on 127.0.0.1 alone.
//  2. Only clients that know the token in its address are answered; see
//     HttpSite, which also turns away requests of other sites' pages. Nothing
//     is read from a request but its method, its path, its query and who asks.
//  3. Every answer forbids storing it, guessing its type, framing it, and
//     reading it from another origin. A page may load nothing and run no script
//     but its own (see PagePolicy).
//  4. A request has at most kMaxRequestBytes (431) and must be whole within
//     `request_limit` (408); an answer may stand still for `answer_limit`.
//  5. A client that is slow, or silent, costs a connection and no thread. There
//     are at most kMaxStrangers that have not shown the token, and kMaxGuests
//     that have: of the class in which room is wanted, the connection that has
//     made no progress for longest gives way. So strangers, however many, never
//     cost a guest his answer.
//  6. A failure, of memory too, costs only its own connection: 500 where there
//     is still an answer, and the server goes on.
//
// Built on Boost.Asio. One thread accepts, reads and writes; kThreads others
// call the handlers, so that an answer that takes long holds up no other.
//
// Threads: its own; handlers are called from several at once.
#ifndef CASTOR_CLI_SERVE_LOOPBACK_SERVER_H_
#define CASTOR_CLI_SERVE_LOOPBACK_SERVER_H_

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/serve/http_site.h"

namespace castor::cli {

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
  static constexpr int kMaxStrangers = 128;
  static constexpr int kMaxGuests = 32;

  // Serves from now on: `paths` has a handler for each, "/" and so on.
  // InvalidArgument: the port is none, is taken or not for this user.
  // ResourceExhausted: there are no threads or descriptors left.
  static absl::StatusOr<std::unique_ptr<LoopbackServer>> Start(
      const ServerOptions& options, std::map<std::string, HttpHandler> paths);
  // Breaks off answers in progress, and returns when all threads are gone.
  ~LoopbackServer();
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  int port() const { return port_; }
  // The address with the token, which is new for each server: only its user may
  // see it.
  const std::string& url() const { return url_; }

 private:
  class Impl;
  LoopbackServer();

  std::unique_ptr<Impl> impl_;
  int port_ = 0;
  std::string url_;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_SERVE_LOOPBACK_SERVER_H_
