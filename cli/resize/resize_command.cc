#include "cli/resize/resize_command.h"

#include <cstdint>
#include <cstdio>

#include "absl/status/status.h"
#include "base/annotate.h"
#include "base/units.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/resize/control_socket.h"
#include "cli/resize/memory_requests.h"

namespace castor::cli {

int Resize(const ResizeArguments& arguments) {
  const auto bytes = ParseBytes(arguments.device_memory);
  if (!bytes.ok()) return Fail(Annotate("--device-memory", bytes.status()));
  if (*bytes == 0) {
    return Fail(absl::InvalidArgumentError(
        "--device-memory: a run needs more than 0 bytes"));
  }
  const auto answer = AskProcess(arguments.pid, MemoryRequest(*bytes));
  if (!answer.ok()) return Fail(answer.status());
  if (!answer->done) return Fail(absl::ResourceExhaustedError(answer->line));
  std::printf("%s\n", answer->line.c_str());
  return kSuccess;
}

}  // namespace castor::cli
