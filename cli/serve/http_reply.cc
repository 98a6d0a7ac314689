#include "cli/serve/http_reply.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/io/sha256.h"

namespace castor::cli {
namespace {

std::string Base64Sha256(absl::string_view bytes) {
  Sha256 sum;
  sum.Update(bytes);
  return absl::Base64Escape(absl::HexStringToBytes(sum.HexDigest()));
}

}  // namespace

std::string PagePolicy(absl::string_view page) {
  std::string scripts;
  // HTML's own rule: a script ends at the first "</script", whatever it is in.
  const std::string lower = absl::AsciiStrToLower(page);
  for (size_t at = 0; (at = lower.find("<script", at)) != std::string::npos;) {
    const size_t open = lower.find('>', at);
    if (open == std::string::npos) break;
    const size_t close = lower.find("</script", open);
    if (close == std::string::npos) break;
    if (!absl::StrContains(lower.substr(at, open - at), "application/json")) {
      absl::StrAppend(&scripts, " 'sha256-",
                      Base64Sha256(page.substr(open + 1, close - open - 1)),
                      "'");
    }
    at = close;
  }
  return absl::StrCat(
      "default-src 'none'; script-src", scripts.empty() ? " 'none'" : scripts,
      "; style-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
}

HttpReply TextReply(int status, std::string text) {
  HttpReply reply;
  reply.status = status;
  reply.body = std::make_shared<const std::string>(std::move(text));
  return reply;
}

HttpReply JsonReply(std::shared_ptr<const std::string> json, int status) {
  return {.status = status,
          .content_type = "application/json",
          .body = std::move(json),
          .policy = ""};
}

HttpReply PageReply(std::shared_ptr<const std::string> page) {
  return {.status = 200,
          .content_type = "text/html; charset=utf-8",
          .body = page,
          .policy = PagePolicy(*page)};
}

}  // namespace castor::cli
