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
#include "absl/strings/strip.h"
#include "base/annotate.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/json_part.h"

namespace castor::text {
namespace {

constexpr int64_t kMaxJsonBytes = int64_t{16} << 20;
constexpr char kLlamaFile[] = "tokenizer.model";
constexpr char kT5File[] = "spiece.model";

// transformers gives ids to tokens that have none in the order of these keys.
constexpr const char* kSpecialKeys[] = {"bos_token", "eos_token", "unk_token",
                                        "sep_token", "pad_token", "cls_token",
                                        "mask_token"};
constexpr const char* kMoreSpecialKeys[] = {"additional_special_tokens",
                                            "extra_special_tokens"};

struct TokenizerClass {
  const char* name;
  bool adds_bos, adds_eos;
  bool may_change;  // by add_bos_token and add_eos_token
  int64_t extra_ids;
  // Special tokens, unless the files name others.
  std::map<std::string, std::string> specials;
};

const std::vector<TokenizerClass>& Classes() {
  static const auto* const classes = new std::vector<TokenizerClass>{
      {"LlamaTokenizer",
       true,
       false,
       true,
       0,
       {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}}},
      {"GemmaTokenizer",
       true,
       false,
       true,
       0,
       {{"bos_token", "<bos>"},
        {"eos_token", "<eos>"},
        {"unk_token", "<unk>"},
        {"pad_token", "<pad>"}}},
      {"T5Tokenizer",
       false,
       true,
       false,
       100,
       {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}}},
      {"MT5Tokenizer",
       false,
       true,
       false,
       100,
       {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}}},
  };
  return *classes;
}

// An added token in the making: what a tokenizer.json says of one.
Json PlainToken(const std::string& content, bool special) {
  return {{"content", content}, {"special", special}};
}

class ConfigReader {
 public:
  ConfigReader(const std::string& directory, absl::string_view model_name,
               const Vocabulary& vocabulary)
      : directory_(directory),
        model_name_(model_name),
        vocabulary_(vocabulary) {}

  absl::StatusOr<SentencePieceConfig> Read();

 private:
  // An empty object where there is no such file.
  absl::StatusOr<Json> ReadObject(absl::string_view name) const;
  absl::Status ReadFiles();
  absl::Status FindClass(const JsonPart& config);
  absl::Status ReadAddedTokens(const JsonPart& config);
  absl::Status ReadSpecialTokens(const JsonPart& config, const JsonPart& map);
  absl::Status AddExtraIds(const JsonPart& config);
  absl::StatusOr<Json> MakePostProcessor(const JsonPart& config) const;

  absl::Status AddAt(int64_t id, Json token, const JsonPart& part,
                     absl::string_view key);
  // Under its id in the vocabulary or the next free one, unless it is there.
  void AddSpecial(Json token);
  std::optional<int64_t> IdOf(const std::string& content) const;

  const std::string& directory_;
  const absl::string_view model_name_;
  const Vocabulary& vocabulary_;
  const TokenizerClass* class_ = nullptr;
  Json config_, map_, added_;  // the files
  std::map<int64_t, Json> tokens_;
  std::map<std::string, int64_t> ids_;           // of tokens_, by content
  std::map<std::string, std::string> specials_;  // bos_token and others
};

absl::StatusOr<Json> ConfigReader::ReadObject(absl::string_view name) const {
  const std::string path = absl::StrCat(directory_, "/", name);
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxJsonBytes);
  if (absl::IsNotFound(text.status())) return Json::object();
  CASTOR_RETURN_IF_ERROR(text.status());
  absl::StatusOr<Json> json = ParseStrictJson(*text, {.max_depth = 64});
  if (!json.ok()) return Annotate(path, json.status());
  return json;
}

absl::Status ConfigReader::ReadFiles() {
  CASTOR_ASSIGN_OR_RETURN(config_, ReadObject("tokenizer_config.json"));
  CASTOR_ASSIGN_OR_RETURN(map_, ReadObject("special_tokens_map.json"));
  CASTOR_ASSIGN_OR_RETURN(added_, ReadObject("added_tokens.json"));
  return absl::OkStatus();
}

absl::Status ConfigReader::FindClass(const JsonPart& config) {
  CASTOR_ASSIGN_OR_RETURN(
      std::string name,
      config.String("tokenizer_class",
                    model_name_ == kT5File ? "T5Tokenizer" : "LlamaTokenizer"));
  name = std::string(absl::StripSuffix(name, "Fast"));
  std::string known;
  for (const TokenizerClass& each : Classes()) {
    if (each.name == name) class_ = &each;
    absl::StrAppend(&known, known.empty() ? "" : ", ", each.name);
  }
  if (class_ != nullptr) return absl::OkStatus();
  return config.Error(
      "tokenizer_class",
      absl::StrCat(QuotedForMessage(name),
                   " is not supported without a tokenizer.json; there are ",
                   known,
                   ". AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) "
                   "of transformers writes one"));
}

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
  CASTOR_ASSIGN_OR_RETURN(
      const JsonPart part,
      JsonPart::Make(added_, absl::StrCat(directory_, "/added_tokens.json")));
  for (const auto& [content, id] : added_.items()) {
    if (AsTokenId(id) == Vocabulary::kNone) {
      return part.Error(content, "expected an id");
    }
    CASTOR_RETURN_IF_ERROR(
        AddAt(AsTokenId(id), PlainToken(content, false), part, content));
  }
  return absl::OkStatus();
}

absl::Status ConfigReader::ReadSpecialTokens(const JsonPart& config,
                                             const JsonPart& map) {
  // A string, or an object with "content".
  const auto token_of = [](const JsonPart& part, absl::string_view key,
                           const Json& value) -> absl::StatusOr<Json> {
    if (value.is_string()) return PlainToken(value.get<std::string>(), true);
    if (value.is_object() && value.contains("content") &&
        value["content"].is_string()) {
      Json token = value;
      token["special"] = true;
      return token;
    }
    return part.Error(key, "expected a token's text");
  };
  for (const char* key : kSpecialKeys) {
    const JsonPart& part = config.Find(key) != nullptr ? config : map;
    Json token;
    if (const Json* value = part.Find(key); value != nullptr) {
      CASTOR_ASSIGN_OR_RETURN(token, token_of(part, key, *value));
    } else if (const auto named = class_->specials.find(key);
               named != class_->specials.end() && !config_.contains(key)) {
      // A class's own token that the model does not have is none.
      if (!IdOf(named->second).has_value()) continue;
      token = PlainToken(named->second, true);
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
      CASTOR_ASSIGN_OR_RETURN(Json token, token_of(part, key, value));
      AddSpecial(std::move(token));
    }
  }
  return absl::OkStatus();
}

absl::Status ConfigReader::AddExtraIds(const JsonPart& config) {
  if (class_->extra_ids == 0) return absl::OkStatus();
  CASTOR_ASSIGN_OR_RETURN(
      const int64_t count,
      config.Int("extra_ids", class_->extra_ids, {.min = 0, .max = 100'000}));
  for (int64_t i = count; i-- > 0;) {
    const std::string content = absl::StrCat("<extra_id_", i, ">");
    if (IdOf(content).has_value()) continue;
    Json token = PlainToken(content, true);
    token["lstrip"] = token["rstrip"] = true;
    CASTOR_RETURN_IF_ERROR(AddAt(vocabulary_.end_id() + count - 1 - i,
                                 std::move(token), config, "extra_ids"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> ConfigReader::MakePostProcessor(
    const JsonPart& config) const {
  bool adds_bos = class_->adds_bos, adds_eos = class_->adds_eos;
  if (class_->may_change) {
    CASTOR_ASSIGN_OR_RETURN(adds_bos, config.Bool("add_bos_token", adds_bos));
    CASTOR_ASSIGN_OR_RETURN(adds_eos, config.Bool("add_eos_token", adds_eos));
  }
  Json single = Json::array(), special_tokens = Json::object();
  const auto add = [&](const char* key) -> absl::Status {
    const auto found = specials_.find(key);
    if (found == specials_.end()) {
      return config.Error(key, "is put around texts, and there is none");
    }
    const std::string& content = found->second;
    single.push_back({{"SpecialToken", {{"id", content}, {"type_id", 0}}}});
    special_tokens[content] = {
        {"ids", {static_cast<uint64_t>(IdOf(content).value())}}};
    return absl::OkStatus();
  };
  if (adds_bos) CASTOR_RETURN_IF_ERROR(add("bos_token"));
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (adds_eos) CASTOR_RETURN_IF_ERROR(add("eos_token"));
  return Json{{"type", "TemplateProcessing"},
              {"single", std::move(single)},
              {"special_tokens", std::move(special_tokens)}};
}

absl::StatusOr<SentencePieceConfig> ConfigReader::Read() {
  CASTOR_RETURN_IF_ERROR(ReadFiles());
  CASTOR_ASSIGN_OR_RETURN(
      const JsonPart config,
      JsonPart::Make(config_,
                     absl::StrCat(directory_, "/tokenizer_config.json")));
  CASTOR_ASSIGN_OR_RETURN(
      const JsonPart map,
      JsonPart::Make(map_,
                     absl::StrCat(directory_, "/special_tokens_map.json")));
  CASTOR_RETURN_IF_ERROR(FindClass(config));
  CASTOR_RETURN_IF_ERROR(ReadAddedTokens(config));
  CASTOR_RETURN_IF_ERROR(ReadSpecialTokens(config, map));
  SentencePieceConfig result;
  CASTOR_ASSIGN_OR_RETURN(result.legacy, config.Bool("legacy", true));
  CASTOR_ASSIGN_OR_RETURN(result.document["post_processor"],
                          MakePostProcessor(config));
  result.document["added_tokens"] = Json::array();
  for (auto& [id, token] : tokens_) {
    token["id"] = static_cast<uint64_t>(id);
    result.document["added_tokens"].push_back(token);
  }
  return result;
}

}  // namespace

std::string FindSentencePiece(const std::string& directory) {
  for (const char* name : {kLlamaFile, kT5File}) {
    if (HasFile(directory, name)) return name;
  }
  return "";
}

absl::StatusOr<SentencePieceConfig> ReadSentencePieceConfig(
    const std::string& directory, absl::string_view model_name,
    const Vocabulary& vocabulary) {
  return ConfigReader(directory, model_name, vocabulary).Read();
}

}  // namespace castor::text
