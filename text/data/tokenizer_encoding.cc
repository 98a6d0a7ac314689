#include "text/data/tokenizer_encoding.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/model_end_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace castor {
namespace {

using text::Tokenizer;

// Sets what ends a document.
absl::Status FindEndOfDocument(const std::string& directory,
                               const Tokenizer& tokenizer,
                               TextEncoding* encoding) {
  const auto set = [&](int32_t id) {
    encoding->end_of_document = id;
    encoding->end_text = tokenizer.TokenOf(id).value_or("");
  };
  if (tokenizer.end_token().has_value()) {
    set(*tokenizer.end_token());
    return absl::OkStatus();
  }
  encoding->end_looked_for =
      "eos_token of tokenizer_config.json or special_tokens_map.json, the "
      "tokenizer's class, eos_token_id of config.json or "
      "generation_config.json name none";
  for (const char* name : {"config.json", "generation_config.json"}) {
    CASTOR_ASSIGN_OR_RETURN(const std::vector<int32_t> ends,
                            text::EndTokensIn(directory, name));
    for (const int32_t id : ends) {
      if (tokenizer.TokenOf(id).has_value()) {
        set(id);
        return absl::OkStatus();
      }
      absl::StrAppend(&encoding->end_looked_for, "; the tokenizer has no ", id,
                      ", the eos_token_id of ", name);
    }
  }
  return absl::OkStatus();
}

// Finds by trying whether the vocabulary has bytes in GPT-2's alphabet.
bool IsByteLevel(const Tokenizer& tokenizer) {
  constexpr absl::string_view kTried = "\n a";
  std::vector<int32_t> ids;
  if (!tokenizer.Encode(kTried, {.add_special_tokens = false}, &ids).ok()) {
    return false;
  }
  std::string bytes;
  for (const int32_t id : ids) {
    if (!text::AppendBytesOf(tokenizer.TokenOf(id).value_or("▁"), &bytes)) {
      return false;
    }
  }
  // A space may have been put before it.
  return absl::EndsWith(bytes, kTried);
}

// Returns the texts that the token `id` may be in a text
// (TextEncoding::texts_of).
std::vector<std::string> TextsOf(const Tokenizer& tokenizer, bool is_byte_level,
                                 int32_t id) {
  const std::optional<std::string> token = tokenizer.TokenOf(id);
  if (!token.has_value()) return {};
  std::vector<std::string> texts;
  const auto add = [&](std::string text) {
    const bool has_space = absl::StartsWith(text, " ");
    texts.push_back(std::move(text));
    if (has_space) texts.push_back(texts.back().substr(1));
  };
  std::string bytes;
  if (is_byte_level) {
    if (text::AppendBytesOf(*token, &bytes)) add(std::move(bytes));
  } else if (uint32_t byte = 0;
             token->size() == 6 && absl::StartsWith(*token, "<0x") &&
             absl::EndsWith(*token, ">") &&
             absl::SimpleHexAtoi(absl::string_view(*token).substr(3, 2),
                                 &byte)) {
    add(std::string(1, static_cast<char>(byte)));  // of SentencePiece
  } else {
    add(absl::StrReplaceAll(*token, {{"▁", " "}}));
    // WordPiece's parts of words that do not begin them.
    if (absl::StartsWith(*token, "##")) add(token->substr(2));
  }
  add(*token);  // as one that is added is in a text
  return texts;
}

absl::StatusOr<TextEncoding> Load(const std::string& directory) {
  CASTOR_ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer,
                          Tokenizer::Load(directory));
  TextEncoding encoding;
  encoding.name = absl::StrCat("tokenizer \"", directory, "\"");
  encoding.vocabulary = tokenizer->vocabulary_size();
  encoding.checksum = tokenizer->checksum();
  encoding.named_tokens = tokenizer->named_tokens();
  encoding.before = tokenizer->prefix();
  encoding.after = tokenizer->suffix();
  encoding.pair = tokenizer->pair();
  if (!encoding.before.empty()) {
    encoding.begin_token =
        tokenizer->TokenOf(encoding.before.back()).value_or("");
  }
  CASTOR_RETURN_IF_ERROR(FindEndOfDocument(directory, *tokenizer, &encoding));
  encoding.decode = [tokenizer](absl::Span<const int32_t> ids) {
    return tokenizer->Decode(ids, /*skip_special_tokens=*/false);
  };
  encoding.texts_of = [tokenizer,
                       is_byte_level = IsByteLevel(*tokenizer)](int32_t id) {
    return TextsOf(*tokenizer, is_byte_level, id);
  };
  encoding.encode = [tokenizer = std::move(tokenizer)](
                        absl::string_view text, std::vector<int32_t>* ids) {
    return tokenizer->Encode(text, {.add_special_tokens = false}, ids);
  };
  CASTOR_RETURN_IF_ERROR(FindKeepsSpace(&encoding));
  return encoding;
}

}  // namespace

absl::StatusOr<TextEncoding> LoadTextEncoding(const std::string& directory) {
  absl::StatusOr<TextEncoding> encoding = Load(directory);
  if (encoding.ok()) return encoding;
  return Annotate(absl::StrCat("\"", directory, "\""), encoding.status());
}

}  // namespace castor
