// The "model" of a tokenizer.json, of whatever type.
#ifndef CASTOR_TEXT_TOKENIZER_READ_MODEL_H_
#define CASTOR_TEXT_TOKENIZER_READ_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/model.h"

namespace castor::text {

// Reads a model: BPE, Unigram, WordLevel or WordPiece.
absl::StatusOr<std::unique_ptr<const Model>> ReadModel(const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_READ_MODEL_H_
