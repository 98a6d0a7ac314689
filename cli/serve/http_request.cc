#include "cli/serve/http_request.h"

#include <iterator>
#include <limits>
#include <utility>  // Boost 1.74 uses std::exchange without including it.

// These follow the header that they should include.
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor::cli {
namespace {

namespace http = boost::beast::http;

using Parser = http::request_parser<http::empty_body>;

absl::Status Take(const Parser& parser, const char* name,
                  std::optional<std::string>* value) {
  const auto [first, last] = parser.get().equal_range(name);
  if (first == last) return absl::OkStatus();
  if (std::next(first) != last) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is given more than once"));
  }
  value->emplace(first->value().data(), first->value().size());
  return absl::OkStatus();
}

}  // namespace

int64_t HttpHeadBytes(absl::string_view received) {
  constexpr absl::string_view kEnd = "\r\n\r\n";
  const size_t at = received.find(kEnd);
  return at == absl::string_view::npos ? 0
                                       : static_cast<int64_t>(at + kEnd.size());
}

absl::StatusOr<HttpRequest> ParseHttpRequest(absl::string_view head) {
  Parser parser;
  parser.header_limit(kMaxRequestBytes);
  // No body is read. (boost::none, for no limit, refuses all in 1.74.)
  parser.body_limit(std::numeric_limits<uint64_t>::max());
  boost::system::error_code error;
  parser.put(boost::asio::buffer(head.data(), head.size()), error);
  if (error || !parser.is_header_done()) {
    return absl::InvalidArgumentError(
        error ? error.message() : "the request ends within its head");
  }
  HttpRequest request;
  request.is_get = parser.get().method() == http::verb::get;
  const auto target = parser.get().target();
  request.target.assign(target.data(), target.size());
  CASTOR_RETURN_IF_ERROR(Take(parser, "Host", &request.host));
  CASTOR_RETURN_IF_ERROR(Take(parser, "Origin", &request.origin));
  CASTOR_RETURN_IF_ERROR(Take(parser, "Sec-Fetch-Site", &request.fetch_site));
  return request;
}

}  // namespace castor::cli
