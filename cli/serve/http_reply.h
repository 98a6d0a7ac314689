// The answers of the loopback server.
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
  // Content-Security-Policy; empty, for answers that are no page: nothing may
  // be loaded.
  std::string policy;
};

// Returns the status line and the headers, their empty line included. They
// forbid, for every answer, to store it, to guess its type, to frame it and to
// read it from another origin, and say that the connection ends after it.
std::string ReplyHead(const HttpReply& reply);

HttpReply TextReply(int status, std::string text);
HttpReply JsonReply(std::shared_ptr<const std::string> json, int status = 200);

// Returns an answer with `page`, one HTML file with its scripts and styles
// inside. Its policy allows these very scripts by their hash, inline styles and
// pictures, and fetching from the page's own origin. So no markup that comes in
// with data can run.
HttpReply PageReply(std::shared_ptr<const std::string> page);
std::string PagePolicy(absl::string_view page);

}  // namespace castor::cli

#endif  // CASTOR_CLI_SERVE_HTTP_REPLY_H_
