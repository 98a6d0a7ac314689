// Tokenizes by SentencePiece's own library, from its own file. The library does
// the work of a normalizer, a pre-tokenizer, a model and a decoder of a
// tokenizer.json.
//
// A model that puts a space before a text does so once, before the text; or,
// where it is `legacy`, before each part of the text that lies between added
// tokens, as transformers did before it knew the key "legacy" of
// tokenizer_config.json.
#ifndef CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_H_
#define CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_H_

#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/sentence_piece_file.h"

namespace castor::text {

struct SentencePieceParts {
  std::unique_ptr<const Model> model;
  // Decodes the pieces between added tokens, which stand for themselves. The
  // space that was put before the text is left out, in `legacy` those before
  // all parts.
  std::unique_ptr<const Decoder> decoder;
};

// Makes the parts. `added` are the added tokens as they stand in a text.
// InvalidArgument: the library does not take the model; gives its reason.
absl::StatusOr<SentencePieceParts> MakeSentencePiece(
    const SentencePieceFile& file, bool legacy, std::set<std::string> added);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_H_
