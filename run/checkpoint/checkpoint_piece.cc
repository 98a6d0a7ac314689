#include "run/checkpoint/checkpoint_piece.h"

#include "absl/strings/str_cat.h"
#include "base/strict_json.h"

namespace castor {

std::string DescribeTensor(absl::string_view name, StatePart kind) {
  return absl::StrCat("tensor ", QuotedForMessage(name), " (",
                      kind.is_master() ? "master"
                      : kind.is_margins()
                          ? "rows and columns"
                          : absl::StrCat("state ", kind.index()),
                      ")");
}

std::string TensorKey(absl::string_view name, StatePart kind) {
  return absl::StrCat(name, absl::string_view("\0", 1), kind.index());
}

}  // namespace castor
