// What a file is that was meant to hold data, and by its first bytes holds
// something else.
#ifndef CASTOR_BASE_FOREIGN_CONTENT_H_
#define CASTOR_BASE_FOREIGN_CONTENT_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace castor {

// So many first bytes are enough.
inline constexpr int64_t kForeignContentBytes = 1024;

// What a file is that begins with `head`, as it stands after the file's name in
// a message: "is a git-lfs pointer, not the file: git lfs pull fetches it". "":
// none of what is known. Nothing of this is ever text, JSON, tokens or weights.
absl::string_view ForeignContent(absl::string_view head);

// The same of a web page, which may be text that was meant.
absl::string_view WebPage(absl::string_view head);

// The same of text that is not UTF-8 but UTF-16 or UTF-32: by its byte order
// mark, or by the zero bytes in the ASCII letters that it begins with.
absl::string_view WideText(absl::string_view head);

}  // namespace castor

#endif  // CASTOR_BASE_FOREIGN_CONTENT_H_
