#include "cli/output/fail.h"

#include <cstdio>

#include "base/standard_error.h"
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
  const int code = ExitCode(status);
  std::fflush(stdout);
  TellError("castor", status, code);
  return code;
}

}  // namespace castor::cli
