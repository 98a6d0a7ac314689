#include "runtime/autograd/key_value_cache.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor {

absl::StatusOr<KeyValueCache::Entry*> KeyValueCache::Meet(
    absl::string_view site, int64_t width, DType dtype) {
  const auto at =
      std::find_if(entries_.begin(), entries_.end(),
                   [&](const Entry& entry) { return entry.site == site; });
  if (at != entries_.end() && at->width == width && at->dtype == dtype) {
    return &*at;
  }
  if (held_ || at != entries_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("\"", site, "\" brings keys of ", width,
                     " elements, which its dry pass did not: a model's "
                     "operators may depend on shapes alone"));
  }
  entries_.push_back(
      {.site = std::string(site), .width = width, .dtype = dtype});
  return &entries_.back();
}

absl::Status KeyValueCache::Hold(Engine& engine) {
  for (Entry& entry : entries_) {
    const Shape shape = {1, capacity_, entry.width};
    CASTOR_ASSIGN_OR_RETURN(
        entry.keys,
        engine.Hold(absl::StrCat(entry.site, "/keys"), shape, entry.dtype));
    CASTOR_ASSIGN_OR_RETURN(
        entry.values,
        engine.Hold(absl::StrCat(entry.site, "/values"), shape, entry.dtype));
  }
  held_ = true;
  return absl::OkStatus();
}

absl::Status KeyValueCache::Advance(int64_t positions) {
  if (positions > capacity_ - length_) {
    return absl::OutOfRangeError(absl::StrCat(
        positions, " more positions do not fit a key-value cache of ",
        capacity_, " that has ", length_));
  }
  length_ += positions;
  return absl::OkStatus();
}

}  // namespace castor
