// Suggests the name that a person probably meant by one that is not in a list.
#ifndef CASTOR_BASE_NEAREST_NAME_H_
#define CASTOR_BASE_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace castor {

// Returns the name in lower case without spaces, hyphens and underscores. Two
// names count as one if their plain names are equal.
std::string PlainName(absl::string_view name);

// Returns the message for a `name` that is none of `names`, which must not be
// empty. It says that this `what` ("GPU") is unknown, and gives the nearest
// name (one that begins with it, or else the one with the fewest other letters)
// and all of them.
std::string UnknownName(absl::string_view what, absl::string_view name,
                        const std::vector<std::string>& names);

}  // namespace castor

#endif  // CASTOR_BASE_NEAREST_NAME_H_
