// A file of the repository that the program carries (base/embedded_texts.bzl).
#ifndef CASTOR_BASE_EMBEDDED_TEXT_H_
#define CASTOR_BASE_EMBEDDED_TEXT_H_

#include "absl/strings/string_view.h"

namespace castor {

struct EmbeddedText {
  absl::string_view name;  // the file's, without its folder
  absl::string_view text;
};

}  // namespace castor

#endif  // CASTOR_BASE_EMBEDDED_TEXT_H_
