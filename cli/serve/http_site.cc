#include "cli/serve/http_site.h"

#include <openssl/crypto.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/serve/http_request.h"

namespace castor::cli {
namespace {

HttpSite::Route Refuse(int status, std::string why) {
  HttpSite::Route route;
  route.refusal = TextReply(status, absl::StrCat(why, "\n"));
  return route;
}

// "%41" and "+" of a form; what is no such code stands for itself.
std::string Decode(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() &&
        absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) &&
        absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]))) {
      const std::string digits(text.substr(i + 1, 2));
      decoded += static_cast<char>(std::strtol(digits.c_str(), nullptr, 16));
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

HttpQuery ParseQuery(absl::string_view text) {
  HttpQuery query;
  for (const absl::string_view part :
       absl::StrSplit(text, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    query.emplace(Decode(pair.first), Decode(pair.second));
  }
  return query;
}

}  // namespace

HttpSite::HttpSite(int port, std::string token,
                   std::map<std::string, HttpHandler> paths)
    : port_(port), token_(std::move(token)), paths_(std::move(paths)) {
  for (const char* name : {"127.0.0.1", "localhost"}) {
    hosts_.push_back(absl::StrCat(name, ":", port));
    if (port == 80) hosts_.push_back(name);
  }
}

HttpSite::Route HttpSite::Find(absl::string_view head) const {
  const absl::StatusOr<HttpRequest> request = ParseHttpRequest(head);
  if (!request.ok()) {
    return Refuse(400,
                  absl::StrCat("no request: ",
                               absl::string_view(request.status().message())));
  }
  const std::string host = absl::AsciiStrToLower(request->host.value_or(""));
  if (std::find(hosts_.begin(), hosts_.end(), host) == hosts_.end()) {
    return Refuse(403, absl::StrCat("ask for ", hosts_[0]));
  }
  const std::string origin =
      absl::AsciiStrToLower(request->origin.value_or(""));
  const std::string from =
      absl::AsciiStrToLower(request->fetch_site.value_or("none"));
  if ((request->origin.has_value() &&
       origin != absl::StrCat("http://", host)) ||
      (from != "same-origin" && from != "none")) {
    return Refuse(403,
                  "another page asks for this, which is for its user alone: "
                  "paste the address yourself");
  }
  absl::string_view path = request->target;
  // "/TOKEN" and what follows.
  if (path.size() <= token_.size() || path[0] != '/' ||
      CRYPTO_memcmp(path.data() + 1, token_.data(), token_.size()) != 0) {
    return Refuse(403,
                  "open the whole address that castor printed, with the long "
                  "word behind the port");
  }
  if (!request->is_get) return Refuse(405, "GET only");
  path.remove_prefix(1 + token_.size());
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(path, absl::MaxSplits('?', 1));
  const auto found = paths_.find(std::string(parts.first));
  if (found == paths_.end()) {
    return Refuse(404, "no such page; the address ends with /");
  }
  return {.handler = &found->second,
          .query = ParseQuery(parts.second),
          .refusal = {}};
}

std::string HttpSite::url() const {
  return absl::StrCat("http://127.0.0.1:", port_, "/", token_, "/");
}

absl::StatusOr<std::string> MakeUrlToken() {
  char bytes[16];
  if (getentropy(bytes, sizeof(bytes)) != 0) {
    return absl::InternalError(
        absl::StrCat("no random bytes: getentropy: ", std::strerror(errno)));
  }
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

}  // namespace castor::cli
