#include "text/data/tokenizer_encoding.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/tokenizer.h"

namespace castor {
namespace {

using text::Tokenizer;

constexpr char kConfigName[] = "tokenizer_config.json";
constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;

// The token that ends a document; -1 where the directory names none.
absl::StatusOr<int32_t> FindEndOfDocument(const std::string& directory,
                                          const Tokenizer& tokenizer) {
  const absl::StatusOr<std::string> text =
      ReadSmallFile(absl::StrCat(directory, "/", kConfigName), kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return -1;
  CASTOR_RETURN_IF_ERROR(text.status());
  const auto json = ParseStrictJson(*text, {.max_depth = 64});
  if (!json.ok()) return Annotate(kConfigName, json.status());
  if (!json->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kConfigName, ": expected an object"));
  }
  const auto eos = json->find("eos_token");
  if (eos == json->end() || eos->is_null()) return -1;
  // A string, or an added token with its "content".
  const nlohmann::json& content =
      eos->is_object() && eos->contains("content") ? (*eos)["content"] : *eos;
  if (!content.is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kConfigName, ": eos_token: expected a token's text"));
  }
  const auto& name = content.get_ref<const std::string&>();
  const std::optional<int32_t> id = tokenizer.FindToken(name);
  if (id.has_value()) return *id;
  return absl::InvalidArgumentError(
      absl::StrCat(kConfigName, ": eos_token: the tokenizer has no token ",
                   QuotedForMessage(name)));
}

absl::StatusOr<TextEncoding> Load(const std::string& directory) {
  CASTOR_ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer,
                          Tokenizer::Load(directory));
  TextEncoding encoding;
  encoding.name = absl::StrCat("tokenizer \"", directory, "\"");
  encoding.vocabulary = tokenizer->vocabulary_size();
  encoding.checksum = tokenizer->checksum();
  encoding.before = tokenizer->prefix();
  encoding.after = tokenizer->suffix();
  CASTOR_ASSIGN_OR_RETURN(encoding.end_of_document,
                          FindEndOfDocument(directory, *tokenizer));
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
