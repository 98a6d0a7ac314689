#include "kernels/embedding/embedding.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/embedding/bad_index.h"

namespace castor::kernels {
namespace {

template <class Args>
absl::Status CheckSizes(absl::string_view what, const Args& args) {
  // Positions are sorted as numbers of 32 bits.
  if (args.rows >= 0 && args.rows <= std::numeric_limits<int32_t>::max() &&
      args.channels >= 1 && args.vocabulary >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": [", args.rows, ", ", args.channels, "] from a table of ",
      args.vocabulary,
      " rows; give sizes of at least 0, less than 2^31 rows and at "
      "least 1 channel"));
}

}  // namespace

absl::Status BadIndex(absl::string_view what, int64_t index, int64_t position,
                      int64_t vocabulary) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": index ", index, " at position ", position,
                   " is outside the table's ", vocabulary,
                   " rows; check the tokens against the vocabulary's size"));
}

absl::Status EmbeddingForwardArgs::Check() const {
  return CheckSizes("EmbeddingForward", *this);
}

absl::Status EmbeddingBackwardArgs::Check() const {
  return CheckSizes("EmbeddingBackward", *this);
}

absl::Status EmbeddingForwardArgs::DescribeFault(const GpuFault& fault) {
  return BadIndex("EmbeddingForward", fault.detail[0], fault.detail[1],
                  fault.detail[2]);
}

absl::Status EmbeddingBackwardArgs::DescribeFault(const GpuFault& fault) {
  return BadIndex("EmbeddingBackward", fault.detail[0], fault.detail[1],
                  fault.detail[2]);
}

}  // namespace castor::kernels
