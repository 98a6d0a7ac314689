#include "kernels/rotary/rotary.h"

#include "absl/strings/str_cat.h"

namespace castor::kernels {

// Elements of a row, and rows of a sequence: so few that a GPU's threads count
// them in 32 bits.
constexpr int64_t kMost = int64_t{1} << 30;

absl::Status RotaryArgs::Check() const {
  if (rows < 0 || length < 1 || begin < 0 || heads < 1 || head_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Rotary: ", rows, " rows of sequences of ", length, " from position ",
        begin, " with ", heads, " heads of ", head_size,
        "; give at least 0 rows from position 0 and at least 1 of the others"));
  }
  if (documents != nullptr && begin != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Rotary: sequences of documents begin at position 0, not ",
                     "at ", begin));
  }
  if (channels < 0 || channels % 2 != 0 || channels > head_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Rotary: ", channels, " channels of a head of ", head_size,
        " cannot turn in pairs; give an even number of at most its size"));
  }
  if (heads > kMost / head_size || length > kMost ||
      stride < heads * head_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Rotary: rows of ", heads, " heads of ", head_size, " every ", stride,
        " elements, in sequences of ", length, "; give at most ", kMost,
        " elements and rows, that do not overlap"));
  }
  return absl::OkStatus();
}

}  // namespace castor::kernels
