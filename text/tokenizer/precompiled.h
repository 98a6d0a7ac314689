// SentencePiece's compiled map of characters (T5, XLM-R, ...): a double-array
// trie of the replaced strings, and the replacements, one after the other and
// each ended by a zero byte.
#ifndef CASTOR_TEXT_TOKENIZER_PRECOMPILED_H_
#define CASTOR_TEXT_TOKENIZER_PRECOMPILED_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/tokenizer/normalizer.h"

namespace castor::text {

// Makes the normalizer of `map`, the "precompiled_charsmap", decoded from base
// 64: the size of the trie in bytes as a little-endian 32-bit number, the
// trie's units, of 32 bits each (Yata's darts-clone,
// https://github.com/s-yata/darts-clone), then the replacements.
// InvalidArgument: sizes do not match, or a replacement is not UTF-8.
absl::StatusOr<std::unique_ptr<const Normalizer>> MakePrecompiled(
    absl::string_view map);

// Checks that the map can be given to SentencePiece's library, which follows it
// without checks. InvalidArgument: it leads out of itself, or more keys than
// the library has room for are each the head of the next.
absl::Status CheckPrecompiled(absl::string_view map);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_PRECOMPILED_H_
