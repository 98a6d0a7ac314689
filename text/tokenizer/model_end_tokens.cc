#include "text/tokenizer/model_end_tokens.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/tokenizer_files.h"
#include "text/tokenizer/vocabulary.h"

namespace castor::text {

absl::StatusOr<std::vector<int32_t>> EndTokensIn(const std::string& directory,
                                                 absl::string_view name) {
  constexpr char kKey[] = "eos_token_id";
  CASTOR_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(directory, name));
  CASTOR_ASSIGN_OR_RETURN(
      const JsonPart part,
      JsonPart::Make(json, absl::StrCat(directory, "/", name)));
  const Json* const value = part.Find(kKey);
  if (value == nullptr) return std::vector<int32_t>();
  std::vector<int32_t> ends;
  for (const Json& id : value->is_array() ? *value : Json::array({*value})) {
    // Some configurations say "none" so.
    if (id == -1) continue;
    if (AsTokenId(id) == Vocabulary::kNone) {
      return part.Error(kKey, "expected a token's id, or a list of them");
    }
    ends.push_back(AsTokenId(id));
  }
  return ends;
}

}  // namespace castor::text
