// The "vocab" of a tokenizer.json.
#ifndef CASTOR_TEXT_TOKENIZER_READ_VOCABULARY_H_
#define CASTOR_TEXT_TOKENIZER_READ_VOCABULARY_H_

#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/vocabulary.h"

namespace castor::text {

// {"token": id, ...}. InvalidArgument: an id that is none, or is there twice.
absl::StatusOr<Vocabulary> ReadVocabulary(const JsonPart& model);

// InvalidArgument at `key`: tokens of so many bytes together are more than a
// trie is made of.
absl::Status CheckFitsTrie(const JsonPart& part, absl::string_view key,
                           size_t bytes);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_READ_VOCABULARY_H_
