// Recognises, by its first bytes, a file that was meant to hold data but holds
// something else.
#ifndef CASTOR_BASE_FOREIGN_CONTENT_H_
#define CASTOR_BASE_FOREIGN_CONTENT_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace castor {

// The number of first bytes that is enough.
inline constexpr int64_t kForeignContentBytes = 1024;

// Describes a file that begins with `head`, for a message after the file's
// name: "is a git-lfs pointer, not the file: git lfs pull fetches it". Returns
// "" for unknown content. What it recognises is never text, JSON, tokens or
// weights.
absl::string_view ForeignContent(absl::string_view head);

// Does the same for a web page, which may be the text that was meant.
absl::string_view WebPage(absl::string_view head);

// Does the same for text in UTF-16 or UTF-32 instead of UTF-8: by its byte
// order mark, or by the zero bytes in the ASCII letters that it begins with.
absl::string_view WideText(absl::string_view head);

}  // namespace castor

#endif  // CASTOR_BASE_FOREIGN_CONTENT_H_
