// Work that takes as much memory as a file or a configuration says: where there
// is not as much, that is an error with a name, not the process's end. What the
// work builds is then destroyed half-built, which the standard library's
// containers allow and Abseil's hash tables do not (tests/check_layers.sh).
#ifndef CASTOR_BASE_ENOUGH_MEMORY_H_
#define CASTOR_BASE_ENOUGH_MEMORY_H_

#include <new>
#include <stdexcept>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace castor {

// What `work` returns, a Status or a StatusOr; or, where an allocation fails
// in it on this thread, ResourceExhausted after `what` ("trace file \"x\"").
template <typename Work>
auto IfMemoryAllows(absl::string_view what, Work&& work) -> decltype(work()) {
  // Known before there is no memory to say it in.
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
