#include "text/data/tokenizer_encoding.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"
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
  if (!encoding.before.empty()) {
    encoding.begin_token =
        tokenizer->TokenOf(encoding.before.back()).value_or("");
  }
  CASTOR_RETURN_IF_ERROR(FindEndOfDocument(directory, *tokenizer, &encoding));
  encoding.decode = [tokenizer](absl::Span<const int32_t> ids) {
    return tokenizer->Decode(ids, /*skip_special_tokens=*/false);
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
