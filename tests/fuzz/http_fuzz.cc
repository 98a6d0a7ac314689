// Any bytes as what a client sends to the loopback server, through all that it
// does with them: what is answered names this machine, comes from no other page
// and knows the token, and what is said to anybody is one HTTP answer.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "cli/serve/http_reply.h"
#include "cli/serve/http_request.h"
#include "cli/serve/http_site.h"

namespace {

using castor::cli::HttpQuery;
using castor::cli::HttpReply;
using castor::cli::HttpSite;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

const HttpSite& Site() {
  static const auto* const site = new HttpSite(
      8674, kToken, {{"/", [](const HttpQuery& query) {
                        std::string text;
                        for (const auto& [name, value] : query) {
                          absl::StrAppend(&text, name, "=", value, "\n");
                        }
                        return castor::cli::TextReply(200, text);
                      }}});
  return *site;
}

// The values of a header, found without a parser.
std::vector<std::string> Values(const std::string& head,
                                const std::string& name) {
  const std::string unfolded =
      absl::StrReplaceAll(head, {{"\r\n ", " "}, {"\r\n\t", " "}});
  std::vector<std::string> values;
  for (const absl::string_view line : absl::StrSplit(unfolded, "\r\n")) {
    const std::string lower = absl::AsciiStrToLower(line);
    if (!absl::StartsWith(lower, name)) continue;
    const std::string rest(
        absl::StripAsciiWhitespace(lower.substr(name.size())));
    if (absl::StartsWith(rest, ":")) {
      values.emplace_back(absl::StripAsciiWhitespace(rest.substr(1)));
    }
  }
  return values;
}

void CheckAllowed(const std::string& head) {
  CASTOR_CHECK(absl::StartsWith(head, absl::StrCat("GET /", kToken, "/")));
  const std::vector<std::string> hosts = Values(head, "host");
  CASTOR_CHECK(hosts.size() == 1 &&
               (hosts[0] == "127.0.0.1:8674" || hosts[0] == "localhost:8674"));
  for (const std::string& origin : Values(head, "origin")) {
    CASTOR_CHECK(origin == "http://" + hosts[0]);
  }
  for (const std::string& from : Values(head, "sec-fetch-site")) {
    CASTOR_CHECK(from == "same-origin" || from == "none");
  }
}

void CheckAnswer(const HttpReply& reply) {
  const std::string head = castor::cli::ReplyHead(reply);
  CASTOR_CHECK(absl::StartsWith(head, "HTTP/1.1 "));
  // Nothing that the client said is in it, which could end it.
  CASTOR_CHECK(castor::cli::HttpHeadBytes(head) ==
               static_cast<int64_t>(head.size()));
  CASTOR_CHECK(absl::StrContains(
      head,
      absl::StrCat("\r\nContent-Length: ",
                   reply.body == nullptr ? 0 : reply.body->size(), "\r\n")));
  CASTOR_CHECK(absl::StrContains(head, "\r\nContent-Security-Policy: default"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view sent(reinterpret_cast<const char*>(data), size);
  const absl::string_view received =
      sent.substr(0, castor::cli::kMaxRequestBytes);
  const int64_t head_bytes = castor::cli::HttpHeadBytes(received);
  if (head_bytes == 0) {
    // The parser refuses an incomplete head, too, which the server would not
    // parse.
    CASTOR_CHECK(!castor::cli::ParseHttpRequest(received).ok());
    return 0;
  }
  const std::string head(received.substr(0, head_bytes));
  const HttpSite::Route route = Site().Find(head);
  if (route.handler == nullptr) {
    CASTOR_CHECK(route.refusal.status >= 400 && route.refusal.status <= 405);
    CASTOR_CHECK(route.query.empty());
    CheckAnswer(route.refusal);
    return 0;
  }
  CheckAllowed(head);
  CheckAnswer((*route.handler)(route.query));
  return 0;
}
