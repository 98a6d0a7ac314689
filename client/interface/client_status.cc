#include "client/interface/client_status.h"

#include <string>

namespace castor {
namespace {

// The thread's last error and refusal.
thread_local std::string last_error;
thread_local ClientRun::Refused last_refusal;

}  // namespace

castor_status Tell(const absl::Status& status,
                   const ClientRun::Refused* refused) {
  if (status.ok()) return CASTOR_OK;
  last_error = std::string(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return CASTOR_INVALID;
    case absl::StatusCode::kAborted:
      return CASTOR_AGAIN;
    case absl::StatusCode::kResourceExhausted:
      if (refused == nullptr || refused->use.empty()) return CASTOR_FAILED;
      last_refusal = *refused;
      return CASTOR_REFUSED;
    default:
      return CASTOR_FAILED;
  }
}

}  // namespace castor

const char* castor_error(void) { return castor::last_error.c_str(); }

castor_refusal castor_last_refusal(void) {
  return {.op = castor::last_refusal.use.c_str(),
          .peak_bytes = castor::last_refusal.peak_bytes,
          .resident_bytes = castor::last_refusal.resident_bytes,
          .smallest_device_budget_bytes =
              castor::last_refusal.smallest_device_budget_bytes,
          .exact = castor::last_refusal.exact ? 1 : 0};
}
