#include "text/tokenizer/read_vocabulary.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/byte_trie.h"

namespace castor::text {

absl::StatusOr<Vocabulary> ReadVocabulary(const JsonPart& model) {
  const Json* tokens = model.Find("vocab");
  if (tokens == nullptr || !tokens->is_object()) {
    return model.Error("vocab", "expected an object {\"token\": id, ...}");
  }
  Vocabulary vocabulary;
  for (const auto& [token, value] : tokens->items()) {
    const int32_t id = AsTokenId(value);
    if (id == Vocabulary::kNone) {
      return model.Error(
          "vocab", absl::StrCat("the token ", QuotedForMessage(token),
                                " has no id from 0 to ", Vocabulary::kMaxId,
                                " but ", DescribeJson(value)));
    }
    if (!vocabulary.Add(token, id)) {
      return model.Error(
          "vocab",
          absl::StrCat("the tokens ", QuotedForMessage(token), " and ",
                       QuotedForMessage(vocabulary.TokenOf(id).value_or("")),
                       " have the same id, ", id));
    }
  }
  return vocabulary;
}

absl::Status CheckFitsTrie(const JsonPart& part, absl::string_view key,
                           size_t bytes) {
  if (bytes <= ByteTrie::kMaxBytes) return absl::OkStatus();
  return part.Error(
      key, absl::StrCat("the tokens have ", bytes, " bytes together; at most ",
                        ByteTrie::kMaxBytes, " are allowed"));
}

}  // namespace castor::text
