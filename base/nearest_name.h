// Finds what a person meant by a name that is not in a list.
#ifndef CASTOR_BASE_NEAREST_NAME_H_
#define CASTOR_BASE_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace castor {

// The name in lower case without spaces, hyphens and underscores: two names
// that are equal so are one name.
std::string PlainName(absl::string_view name);

// The message for a `name` that is none of `names`, which must not be empty:
// what is unknown ("GPU"), the nearest name (one that begins with it, or else
// the one with the fewest other letters), and all of them.
std::string UnknownName(absl::string_view what, absl::string_view name,
                        const std::vector<std::string>& names);

}  // namespace castor

#endif  // CASTOR_BASE_NEAREST_NAME_H_
