// The "normalizer" of a tokenizer.json, of whatever type.
#ifndef CASTOR_TEXT_TOKENIZER_READ_NORMALIZER_H_
#define CASTOR_TEXT_TOKENIZER_READ_NORMALIZER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/normalizer.h"

namespace castor::text {

// Reads a normalizer: BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC,
// NFKD, Nmt, Precompiled, Prepend, Replace, Sequence, Strip or StripAccents.
absl::StatusOr<std::unique_ptr<const Normalizer>> ReadNormalizer(
    const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_READ_NORMALIZER_H_
