// The "vocab" of a tokenizer.json.
#ifndef CASTOR_TEXT_TOKENIZER_READ_VOCABULARY_H_
#define CASTOR_TEXT_TOKENIZER_READ_VOCABULARY_H_

#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/vocabulary.h"

namespace castor::text {

// Reads {"token": id, ...}. InvalidArgument: a value is no id, or an id is
// there twice.
absl::StatusOr<Vocabulary> ReadVocabulary(const JsonPart& model);

// Checks that a trie can hold tokens of so many bytes together. InvalidArgument
// at `key`: it cannot.
absl::Status CheckFitsTrie(const JsonPart& part, absl::string_view key,
                           size_t bytes);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_READ_VOCABULARY_H_
