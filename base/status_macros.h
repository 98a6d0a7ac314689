// Early return on a failed absl::Status or absl::StatusOr.
#ifndef CASTOR_BASE_STATUS_MACROS_H_
#define CASTOR_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define CASTOR_RETURN_IF_ERROR(expr)                              \
  do {                                                            \
    if (absl::Status castor_status = (expr); !castor_status.ok()) \
        [[unlikely]] {                                            \
      return castor_status;                                       \
    }                                                             \
  } while (false)

#define CASTOR_STATUS_CONCAT_INNER(a, b) a##b
#define CASTOR_STATUS_CONCAT(a, b) CASTOR_STATUS_CONCAT_INNER(a, b)

// CASTOR_ASSIGN_OR_RETURN(auto x, F()); `lhs` may declare or assign.
#define CASTOR_ASSIGN_OR_RETURN(lhs, expr) \
  CASTOR_ASSIGN_OR_RETURN_IMPL(            \
      CASTOR_STATUS_CONCAT(castor_statusor_, __LINE__), lhs, expr)

#define CASTOR_ASSIGN_OR_RETURN_IMPL(statusor, lhs, expr) \
  auto statusor = (expr);                                 \
  if (!statusor.ok()) [[unlikely]] {                      \
    return std::move(statusor).status();                  \
  }                                                       \
  lhs = *std::move(statusor)

#endif  // CASTOR_BASE_STATUS_MACROS_H_
