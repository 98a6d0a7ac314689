#include "cli/serve/http_reply.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace castor::cli {
namespace {

std::string Base64Sha256(absl::string_view bytes) {
  Sha256 sum;
  sum.Update(bytes);
  return absl::Base64Escape(sum.Digest());
}

const char* Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    default:
      return "";  // may be empty, and nobody reads it
  }
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

std::string ReplyHead(const HttpReply& reply) {
  return absl::StrCat(
      "HTTP/1.1 ", reply.status, " ", Reason(reply.status),
      "\r\nContent-Type: ", reply.content_type,
      "\r\nContent-Length: ", reply.body == nullptr ? 0 : reply.body->size(),
      "\r\nCache-Control: no-store"
      "\r\nX-Content-Type-Options: nosniff"
      "\r\nX-Frame-Options: DENY"
      "\r\nReferrer-Policy: no-referrer"
      "\r\nCross-Origin-Resource-Policy: same-origin"
      "\r\nCross-Origin-Opener-Policy: same-origin"
      "\r\nContent-Security-Policy: ",
      reply.policy.empty()
          ? "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
          : reply.policy,
      reply.status == 405 ? "\r\nAllow: GET" : "",
      "\r\nConnection: close\r\n\r\n");
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
