#include "kernels/dropout/dropout.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/check_size.h"

namespace castor::kernels {

uint32_t DropoutThreshold(float p) {
  // Below 2^32: the largest float below 1 is 1 - 2^-24.
  return static_cast<uint32_t>(
      std::llround(static_cast<double>(p) * 4294967296.0));
}

absl::Status DropoutArgs::Check() const {
  if (absl::Status s = CheckSize("Dropout", size); !s.ok()) return s;
  if (probability >= 0.0f && probability < 1.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Dropout: probability is ", probability, "; give one in [0, 1)"));
}

}  // namespace castor::kernels
