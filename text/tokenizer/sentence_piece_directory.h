// What a Hugging Face directory says of the SentencePiece model in it: its
// added tokens, and what is put around a text. It is in tokenizer_config.json,
// special_tokens_map.json and added_tokens.json, each of which may be missing.
//
// Which tokens are put around a text no file says: it follows from the
// tokenizer's class, "tokenizer_class" of tokenizer_config.json.
//
//   LlamaTokenizer   tokenizer.model   bos_token before it ("add_bos_token",
//   GemmaTokenizer                     "add_eos_token" change that)
//   T5Tokenizer      spiece.model      eos_token after it; 100 ("extra_ids")
//   MT5Tokenizer                       tokens <extra_id_0> at the vocabulary's
//                                      end, the first one last
//
// Where no class is named, the model's file decides, as above.
#ifndef CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_DIRECTORY_H_
#define CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_DIRECTORY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"
#include "text/tokenizer/vocabulary.h"

namespace castor::text {

// The name of the model's file in `directory`; "": it has none.
std::string FindSentencePiece(const std::string& directory);

struct SentencePieceConfig {
  // "added_tokens" and "post_processor", as a tokenizer.json has them.
  Json document;
  // See sentence_piece.h; where the key is missing, true.
  bool legacy = true;
};

// `model_name` is what FindSentencePiece gave, `vocabulary` the model's.
// InvalidArgument: a file is none, or says what no tokenizer of its class can,
// or the class is another one.
absl::StatusOr<SentencePieceConfig> ReadSentencePieceConfig(
    const std::string& directory, absl::string_view model_name,
    const Vocabulary& vocabulary);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_DIRECTORY_H_
