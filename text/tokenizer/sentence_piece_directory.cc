#include "text/tokenizer/sentence_piece_directory.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/declared_tokens.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/vocabulary_document.h"

namespace castor::text {
namespace {

constexpr const char* kMoreSpecialKeys[] = {"additional_special_tokens",
                                            "extra_special_tokens"};

class ConfigReader {
 public:
  ConfigReader(const SideFiles& side, const TokenizerClass& its_class,
               const Vocabulary& vocabulary)
      : side_(side), class_(its_class), vocabulary_(vocabulary) {}

  absl::StatusOr<SentencePieceConfig> Read();

 private:
  absl::Status ReadAddedTokens(const JsonPart& config);
  absl::Status ReadSpecialTokens(const JsonPart& config, const JsonPart& map);
  absl::Status AddExtraIds(const JsonPart& config);
  absl::StatusOr<Json> MakePostProcessor(const JsonPart& config) const;

  absl::Status AddAt(int64_t id, Json token, const JsonPart& part,
                     absl::string_view key);
  // Under its id in the vocabulary or the next free one, unless it is there.
  void AddSpecial(Json token);
  std::optional<int64_t> IdOf(const std::string& content) const;

  const SideFiles& side_;
  const TokenizerClass& class_;
  const Vocabulary& vocabulary_;
  std::map<int64_t, Json> tokens_;
  std::map<std::string, int64_t> ids_;           // of tokens_, by content
  std::map<std::string, std::string> specials_;  // bos_token and others
};

absl::Status ConfigReader::AddAt(int64_t id, Json token, const JsonPart& part,
                                 absl::string_view key) {
  const std::string content = token["content"];
  if (!tokens_.emplace(id, token).second || !ids_.emplace(content, id).second) {
    return part.Error(key, absl::StrCat("the token ", QuotedForMessage(content),
                                        " or its id ", id, " is there twice"));
  }
  return absl::OkStatus();
}

std::optional<int64_t> ConfigReader::IdOf(const std::string& content) const {
  if (const auto found = ids_.find(content); found != ids_.end()) {
    return found->second;
  }
  const int32_t id = vocabulary_.Find(content);
  if (id == Vocabulary::kNone) return std::nullopt;
  return id;
}

void ConfigReader::AddSpecial(Json token) {
  const std::string content = token["content"];
  if (content.empty()) return;
  if (const auto found = ids_.find(content); found != ids_.end()) {
    tokens_.at(found->second)["special"] = true;
    return;
  }
  int64_t next = vocabulary_.end_id();
  if (!tokens_.empty()) next = std::max(next, tokens_.rbegin()->first + 1);
  const int64_t id = IdOf(content).value_or(next);
  ids_[content] = id;
  tokens_[id] = std::move(token);
}

absl::Status ConfigReader::ReadAddedTokens(const JsonPart& config) {
  constexpr absl::string_view kKey = "added_tokens_decoder";
  if (config.Find(kKey) != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(const JsonPart part, config.Object(kKey));
    for (const auto& [key, value] : config.Find(kKey)->items()) {
      int64_t id = 0;
      if (!absl::SimpleAtoi(key, &id) || id < 0 || id > Vocabulary::kMaxId) {
        return part.Error(key, "expected an id as the key");
      }
      CASTOR_ASSIGN_OR_RETURN(const JsonPart token, part.Object(key));
      CASTOR_RETURN_IF_ERROR(token.RequiredString("content").status());
      CASTOR_RETURN_IF_ERROR(AddAt(id, value, part, key));
    }
    return absl::OkStatus();
  }
  const JsonPart part = side_.AddedTokens();
  for (const auto& [content, id] : side_.added_tokens.items()) {
    if (AsTokenId(id) == Vocabulary::kNone) {
      return part.Error(content, "expected an id");
    }
    Json token = *DeclaredToken(part, content, content, /*special=*/false);
    token["normalized"] = false;
    CASTOR_RETURN_IF_ERROR(
        AddAt(AsTokenId(id), std::move(token), part, content));
  }
  return absl::OkStatus();
}

absl::Status ConfigReader::ReadSpecialTokens(const JsonPart& config,
                                             const JsonPart& map) {
  for (const char* key : kNamedTokens) {
    const JsonPart& part = config.Find(key) != nullptr ? config : map;
    Json token;
    if (const Json* value = part.Find(key); value != nullptr) {
      CASTOR_ASSIGN_OR_RETURN(token, DeclaredToken(part, key, *value, true));
    } else if (const auto named = class_.specials.find(key);
               named != class_.specials.end() && !side_.config.contains(key)) {
      // A class's own token that the model does not have is none.
      if (!IdOf(named->second).has_value()) continue;
      CASTOR_ASSIGN_OR_RETURN(token,
                              DeclaredToken(part, key, named->second, true));
    } else {
      continue;
    }
    specials_[key] = token["content"];
    AddSpecial(std::move(token));
  }
  CASTOR_RETURN_IF_ERROR(AddExtraIds(config));
  for (const char* key : kMoreSpecialKeys) {
    const JsonPart& part = config.Find(key) != nullptr ? config : map;
    // A list; newer files may have an object of named ones.
    const Json* list = part.Find(key);
    if (list == nullptr) continue;
    if (!list->is_array() && !list->is_object()) {
      return part.Error(key, "expected a list of tokens");
    }
    for (const Json& value : *list) {
      CASTOR_ASSIGN_OR_RETURN(Json token,
                              DeclaredToken(part, key, value, true));
      AddSpecial(std::move(token));
    }
  }
  return absl::OkStatus();
}

absl::Status ConfigReader::AddExtraIds(const JsonPart& config) {
  if (class_.extra_ids == 0) return absl::OkStatus();
  CASTOR_ASSIGN_OR_RETURN(
      const int64_t count,
      config.Int("extra_ids", class_.extra_ids, {.min = 0, .max = 100'000}));
  for (int64_t i = count; i-- > 0;) {
    const std::string content = absl::StrCat("<extra_id_", i, ">");
    if (IdOf(content).has_value()) continue;
    Json token = *DeclaredToken(config, "extra_ids", content, true);
    token["lstrip"] = token["rstrip"] = true;
    CASTOR_RETURN_IF_ERROR(AddAt(vocabulary_.end_id() + count - 1 - i,
                                 std::move(token), config, "extra_ids"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> ConfigReader::MakePostProcessor(
    const JsonPart& config) const {
  bool adds_bos = class_.adds_bos, adds_eos = class_.adds_eos;
  if (class_.may_change) {
    CASTOR_ASSIGN_OR_RETURN(adds_bos, config.Bool("add_bos_token", adds_bos));
    CASTOR_ASSIGN_OR_RETURN(adds_eos, config.Bool("add_eos_token", adds_eos));
  }
  return MakeTemplate(
      config, specials_,
      [&](const std::string& content) { return IdOf(content); },
      adds_bos ? std::vector<const char*>{"bos_token"}
               : std::vector<const char*>(),
      adds_eos ? std::vector<const char*>{"eos_token"}
               : std::vector<const char*>());
}

absl::StatusOr<SentencePieceConfig> ConfigReader::Read() {
  const JsonPart config = side_.Config(), map = side_.SpecialTokens();
  CASTOR_RETURN_IF_ERROR(ReadAddedTokens(config));
  CASTOR_RETURN_IF_ERROR(ReadSpecialTokens(config, map));
  SentencePieceConfig result;
  CASTOR_ASSIGN_OR_RETURN(result.legacy, config.Bool("legacy", true));
  CASTOR_ASSIGN_OR_RETURN(result.document["post_processor"],
                          MakePostProcessor(config));
  if (const auto end = specials_.find("eos_token"); end != specials_.end()) {
    result.end_token = end->second;
  }
  result.named_tokens = specials_;
  result.document["added_tokens"] = Json::array();
  for (auto& [id, token] : tokens_) {
    token["id"] = static_cast<uint64_t>(id);
    result.document["added_tokens"].push_back(token);
  }
  return result;
}

}  // namespace

absl::StatusOr<SentencePieceConfig> ReadSentencePieceConfig(
    const SideFiles& side, const TokenizerClass& its_class,
    const Vocabulary& vocabulary) {
  return ConfigReader(side, its_class, vocabulary).Read();
}

}  // namespace castor::text
