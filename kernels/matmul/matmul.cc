#include "kernels/matmul/matmul.h"

#include "absl/strings/str_cat.h"

namespace castor::kernels {

absl::Status MatmulArgs::Check() const {
  const auto bad = [&](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("Matmul [", m, ", ", k, "] x [", k, ", ", n, "] with lda ",
                     lda, ", ldb ", ldb, ", ldc ", ldc, ": ", what));
  };
  if (m < 0 || n < 0 || k < 0) return bad("a size is negative");
  if (lda < (transpose_a ? m : k) || ldb < (transpose_b ? k : n) || ldc < n) {
    return bad("a row is longer than the distance between rows");
  }
  return absl::OkStatus();
}

}  // namespace castor::kernels
