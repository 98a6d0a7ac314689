// The four normal forms of Unicode (UAX #15), by the data of `tokenizers`
// (tables.inc).
#ifndef CASTOR_TEXT_TOKENIZER_UNICODE_NORMAL_FORMS_H_
#define CASTOR_TEXT_TOKENIZER_UNICODE_NORMAL_FORMS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace castor::text {

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Returns `text`, valid UTF-8, in a normal form. A result of more than
// `most_bytes` may be left unfinished. Linear, but for n log n in a run of n
// combining marks.
std::string Normalize(NormalForm form, absl::string_view text,
                      size_t most_bytes);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_UNICODE_NORMAL_FORMS_H_
