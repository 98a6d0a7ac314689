// Decides which requests a loopback server answers, and how it refuses all
// others.
//
// A request is answered by a handler only if all of these hold; in this order:
//  1. It is HTTP (400).
//  2. Its Host names this machine and this port (403): a page of another site,
//     whose name was made to resolve to 127.0.0.1 (DNS rebinding), does not.
//  3. Its Origin, where there is one, is this server; its Sec-Fetch-Site, where
//     there is one, says "same-origin" or "none", which is an address that the
//     user typed (403). So no page of another origin asks, not for a picture
//     nor for a frame either, not even one that knows the token.
//  4. Its path begins with the token (403), which only users know who can read
//     castor's output: other users of this machine can connect, too. It is
//     compared in time that does not depend on where it differs.
//  5. It is a GET (405), and the rest of its path has a handler (404). Paths
//     are compared byte by byte; there are no files.
//
// Threads: immutable.
#ifndef CASTOR_CLI_SERVE_HTTP_SITE_H_
#define CASTOR_CLI_SERVE_HTTP_SITE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/serve/http_reply.h"

namespace castor::cli {

// The query's parameters, decoded; the first of those with one name.
using HttpQuery = std::map<std::string, std::string>;
using HttpHandler = std::function<HttpReply(const HttpQuery& query)>;

class HttpSite {
 public:
  struct Route {
    const HttpHandler* handler = nullptr;  // null: refused
    HttpQuery query;
    HttpReply refusal;
  };

  // `paths` has a handler for each path below the token, "/" and so on.
  HttpSite(int port, std::string token,
           std::map<std::string, HttpHandler> paths);

  // Returns what to do with a request, by its head.
  Route Find(absl::string_view head) const;

  std::string url() const;  // "http://127.0.0.1:8674/TOKEN/"

 private:
  const int port_;
  const std::string token_;
  const std::map<std::string, HttpHandler> paths_;
  std::vector<std::string> hosts_;  // that a request may name
};

// Returns 128 random bits in hexadecimal. Internal: the system has none.
absl::StatusOr<std::string> MakeUrlToken();

}  // namespace castor::cli

#endif  // CASTOR_CLI_SERVE_HTTP_SITE_H_
