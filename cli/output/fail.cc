#include "cli/output/fail.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error_list.h"
#include "cli/output/exit_code.h"

namespace castor::cli {
namespace {

// kOutOfRange is not among them: a run came to values that are no numbers.
bool IsUsersToMend(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:  // a checkpoint's files
      return true;
    default:
      return false;
  }
}

}  // namespace

int ExitCode(const absl::Status& status) {
  if (status.ok()) return kSuccess;
  return IsUsersToMend(status.code()) ? kUserError : kFailure;
}

int Fail(const absl::Status& status) {
  std::string lines;
  for (const std::string& error : ErrorsOf(status)) {
    absl::StrAppend(&lines, "castor: ", error, "\n");
  }
  std::fflush(stdout);
  std::fputs(lines.c_str(), stderr);
  return ExitCode(status);
}

}  // namespace castor::cli
