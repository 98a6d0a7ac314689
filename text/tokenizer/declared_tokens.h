// The tokens that the files beside a tokenizer.json declare, by the rules of
// transformers 5. They get ids behind the vocabulary, in this order, unless the
// vocabulary has them:
//
//   1. added_tokens_decoder of tokenizer_config.json, by its ids; without it
//      those of added_tokens.json, and then special_tokens_map.json counts,
//      over tokenizer_config.json
//   2. named special tokens (bos_token and the like), the class's own where no
//      file names them; and other keys that end with _token
//   3. extra_special_tokens, or additional_special_tokens
#ifndef CASTOR_TEXT_TOKENIZER_DECLARED_TOKENS_H_
#define CASTOR_TEXT_TOKENIZER_DECLARED_TOKENS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"
#include "text/tokenizer/tokenizer_class.h"
#include "text/tokenizer/tokenizer_files.h"

namespace castor::text {

// Returns a token in the form of a list of added tokens, from the string or the
// object that `key` of `part` has. A key that is missing follows from
// `special`.
absl::StatusOr<Json> DeclaredToken(const JsonPart& part, absl::string_view key,
                                   const Json& value, bool special);

struct NamedTokens {
  // "bos_token" and others, by the key.
  std::map<std::string, std::string> tokens;
  // The token that ends a text; "": the files name none, and the vocabulary
  // does not have the class's own.
  std::string end;
  // True if there is something that the document did not say itself.
  bool changed = false;
};

// Adds them to "added_tokens" of `document`, a tokenizer.json. `its_class` may
// be null. InvalidArgument, with the file: an id that a file gives a token is
// not the one that it has. A document that is no tokenizer.json is no error
// here.
absl::StatusOr<NamedTokens> AddDeclaredTokens(const SideFiles& side,
                                              const TokenizerClass* its_class,
                                              Json* document);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_DECLARED_TOKENS_H_
