// The "pattern" of the parts that search: {"String": ...} or {"Regex": ...}.
#ifndef CASTOR_TEXT_TOKENIZER_PATTERN_H_
#define CASTOR_TEXT_TOKENIZER_PATTERN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/regex/regex.h"

namespace castor::text {

absl::StatusOr<std::unique_ptr<const Regex>> ReadPattern(const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_PATTERN_H_
