#include "cli/trace/trace_view_command.h"

#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/serve/loopback_server.h"
#include "cli/trace/trace_source.h"
#include "insight/json_writer.h"
#include "viewer/page.h"

namespace castor::cli {
namespace {

// Where --port is not given: always the same one if it is free, so that a
// tunnel to it (ssh -L 8674:127.0.0.1:8674) serves the next viewer too.
constexpr int kUsualPort = 8674;

// Returns the error that the page shows in place of a trace that cannot be read
// any more.
HttpReply ErrorReply(const absl::Status& status) {
  std::string json;
  JsonWriter writer(&json);
  writer.BeginObject();
  writer.String("error", absl::string_view(status.message()));
  writer.EndObject();
  return JsonReply(std::make_shared<const std::string>(std::move(json)), 500);
}

absl::Status Serve(const TraceViewArguments& arguments) {
  std::vector<std::string> paths = {arguments.trace_path};
  if (!arguments.compare_path.empty()) {
    paths.push_back(arguments.compare_path);
  }
  AnnounceReading(paths);
  TraceSource source(std::move(paths));
  // Errors of the trace are told here and now, not in a browser.
  CASTOR_RETURN_IF_ERROR(source.Json().status());

  // This comes before there are threads, which have the mask from here.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  const HttpReply page =
      PageReply(std::make_shared<const std::string>(ViewerPage()));
  std::map<std::string, HttpHandler> handlers = {
      {"/", [&page](const HttpQuery&) { return page; }},
      {"/view.json", [&source](const HttpQuery&) {
         auto json = source.Json();
         return json.ok() ? JsonReply(*std::move(json))
                          : ErrorReply(json.status());
       }}};
  CASTOR_ASSIGN_OR_RETURN(
      const std::unique_ptr<LoopbackServer> server,
      LoopbackServer::Start({.port = arguments.port.value_or(kUsualPort),
                             .any_port_will_do = !arguments.port.has_value()},
                            std::move(handlers)));
  std::printf("%s is shown at %s (end with Ctrl-C)\n",
              arguments.trace_path.c_str(), server->url().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ends, &signal);
  return absl::OkStatus();
}

}  // namespace

int ViewTrace(const TraceViewArguments& arguments) {
  const absl::Status status = Serve(arguments);
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
