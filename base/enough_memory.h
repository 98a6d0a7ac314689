// For work whose memory depends on a file or a configuration: a failed
// allocation becomes a Status instead of ending the process. Objects of the
// work are then destroyed half-built, which the standard library's containers
// allow and Abseil's hash tables do not (tests/check_layers.sh).
#ifndef CASTOR_BASE_ENOUGH_MEMORY_H_
#define CASTOR_BASE_ENOUGH_MEMORY_H_

#include <new>
#include <stdexcept>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace castor {

// Returns the result of `work`, a Status or a StatusOr; if an allocation fails
// in it on this thread, ResourceExhausted with `what` ("trace file \"x\"").
template <typename Work>
auto IfMemoryAllows(absl::string_view what, Work&& work) -> decltype(work()) {
  // Made first, since there may be no memory to make it later.
  const absl::Status refusal = absl::ResourceExhaustedError(absl::StrCat(
      what,
      " takes more memory than this process can have (see ulimit -v, a "
      "control group's memory.max)"));
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return refusal;
  } catch (const std::length_error&) {  // larger than any memory
    return refusal;
  }
}

}  // namespace castor

#endif  // CASTOR_BASE_ENOUGH_MEMORY_H_
