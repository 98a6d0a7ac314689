// What the loopback server answers.
#ifndef CASTOR_CLI_SERVE_HTTP_REPLY_H_
#define CASTOR_CLI_SERVE_HTTP_REPLY_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace castor::cli {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;  // null: empty
  // Content-Security-Policy; empty: nothing may be loaded, for what is no page.
  std::string policy;
};

// The status line and the headers, their empty line included. They say, of
// every answer, that it may not be stored, its type not be guessed, it not be
// framed nor be read from another origin, and that the connection ends after
// it.
std::string ReplyHead(const HttpReply& reply);

HttpReply TextReply(int status, std::string text);
HttpReply JsonReply(std::shared_ptr<const std::string> json, int status = 200);

// `page` is one HTML file with its scripts and styles inside. Its policy allows
// these very scripts by their hash, inline styles and pictures, and fetching
// from where the page came from. So no markup that data bring in can run.
HttpReply PageReply(std::shared_ptr<const std::string> page);
std::string PagePolicy(absl::string_view page);

}  // namespace castor::cli

#endif  // CASTOR_CLI_SERVE_HTTP_REPLY_H_
