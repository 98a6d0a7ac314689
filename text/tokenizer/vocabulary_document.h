// A tokenizer.json made from the files of a directory that has none, as the
// class of its tokenizer in transformers makes one: vocab.json with merges.txt
// (byte pairs), or vocab.txt (WordPiece). Settings that the class does not fix
// are in tokenizer_config.json: add_prefix_space, add_bos_token, add_eos_token;
// do_lower_case, strip_accents, tokenize_chinese_chars.
#ifndef CASTOR_TEXT_TOKENIZER_VOCABULARY_DOCUMENT_H_
#define CASTOR_TEXT_TOKENIZER_VOCABULARY_DOCUMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"
#include "text/tokenizer/declared_tokens.h"
#include "text/tokenizer/tokenizer_class.h"
#include "text/tokenizer/tokenizer_files.h"

namespace castor::text {

struct VocabularyDocument {
  Json document;
  NamedTokens named;
};

// Makes the document. `its_class` is one of byte pairs or word pieces, and its
// files are in side.directory. InvalidArgument: a file is not of its kind, or a
// token is to be put around texts and there is none of that name.
absl::StatusOr<VocabularyDocument> MakeVocabularyDocument(
    const SideFiles& side, const TokenizerClass& its_class);

// Puts into `document`, a tokenizer.json, the parts that transformers 5 makes
// anew whatever the file says: LlamaTokenizer's spaces. "legacy" and
// "add_prefix_space" of tokenizer_config.json say where one is put before text
// (by default before the first part of a text alone). Returns true if there are
// such parts.
absl::StatusOr<bool> PutClassParts(const SideFiles& side,
                                   const TokenizerClass& its_class,
                                   Json* document);

// Makes a "post_processor" that puts the tokens of these keys ("bos_token")
// before and after a text; `id_of` gives a token's id. InvalidArgument: there
// is no token of a key.
absl::StatusOr<Json> MakeTemplate(
    const JsonPart& config, const std::map<std::string, std::string>& tokens,
    absl::FunctionRef<std::optional<int64_t>(const std::string&)> id_of,
    const std::vector<const char*>& before,
    const std::vector<const char*>& after);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_VOCABULARY_DOCUMENT_H_
