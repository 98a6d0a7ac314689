// The settings that a Hugging Face directory has for its SentencePiece model:
// its added tokens, and the tokens that are put around a text. They are in
// tokenizer_config.json, special_tokens_map.json and added_tokens.json, each of
// which may be missing; settings that no file has follow from the tokenizer's
// class (tokenizer_class.h).
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
  // The special tokens that have names, by their names: "bos_token" and others.
  std::map<std::string, std::string> named_tokens;
};

// Reads the settings. `its_class` is one of SentencePiece's, `vocabulary` the
// model's. InvalidArgument: a file asks for something that no tokenizer of its
// class can do.
absl::StatusOr<SentencePieceConfig> ReadSentencePieceConfig(
    const SideFiles& side, const TokenizerClass& its_class,
    const Vocabulary& vocabulary);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_DIRECTORY_H_
