// The head of an HTTP request, as far as the server needs it.
//
// Parsed by Boost.Beast, strictly: anything but HTTP/1.0 or 1.1 is refused. A
// body is of no use here, and the bytes behind the head are not looked at.
#ifndef CASTOR_CLI_SERVE_HTTP_REQUEST_H_
#define CASTOR_CLI_SERVE_HTTP_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor::cli {

inline constexpr int64_t kMaxRequestBytes = 8192;

struct HttpRequest {
  bool is_get = false;
  std::string target;  // as it was sent: "/view.json?a=%20b"
  // Headers that say who asks; nullopt: not sent.
  std::optional<std::string> host, origin, fetch_site;
};

// Returns the bytes of the head that `received` begins with, its empty line
// included; 0: it has not arrived whole.
int64_t HttpHeadBytes(absl::string_view received);

// Parses the head of a request. InvalidArgument: `head` is no whole head, is
// larger than kMaxRequestBytes, or gives one of the headers above more than
// once.
absl::StatusOr<HttpRequest> ParseHttpRequest(absl::string_view head);

}  // namespace castor::cli

#endif  // CASTOR_CLI_SERVE_HTTP_REQUEST_H_
