// What a Hugging Face directory says of the SentencePiece model in it: its
// added tokens, and what is put around a text. It is in tokenizer_config.json,
// special_tokens_map.json and added_tokens.json, each of which may be missing;
// what no file says follows from the tokenizer's class (tokenizer_class.h).
#ifndef CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_DIRECTORY_H_
#define CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_DIRECTORY_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"
#include "text/tokenizer/tokenizer_class.h"
#include "text/tokenizer/tokenizer_files.h"
#include "text/tokenizer/vocabulary.h"

namespace castor::text {

struct SentencePieceConfig {
  // "added_tokens" and "post_processor", as a tokenizer.json has them.
  Json document;
  // See sentence_piece.h; where the key is missing, true.
  bool legacy = true;
  // The token that ends a text; "": there is none.
  std::string end_token;
  // The special tokens that have names, by these: "bos_token" and others.
  std::map<std::string, std::string> named_tokens;
};

// `its_class` is one of SentencePiece's, `vocabulary` the model's.
// InvalidArgument: a file says what no tokenizer of its class can.
absl::StatusOr<SentencePieceConfig> ReadSentencePieceConfig(
    const SideFiles& side, const TokenizerClass& its_class,
    const Vocabulary& vocabulary);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_DIRECTORY_H_
