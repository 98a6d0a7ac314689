#include "text/tokenizer/declared_tokens.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/vocabulary.h"

namespace castor::text {
namespace {

constexpr char kDecoderKey[] = "added_tokens_decoder";
constexpr char kExtraKey[] = "extra_special_tokens";
constexpr char kOlderExtraKey[] = "additional_special_tokens";
constexpr const char* kFlags[] = {"single_word", "lstrip", "rstrip",
                                  "normalized", "special"};

bool IsNamedKey(absl::string_view key) {
  return std::find(std::begin(kNamedTokens), std::end(kNamedTokens), key) !=
         std::end(kNamedTokens);
}

// The tokens of a document, with their ids.
class DocumentTokens {
 public:
  explicit DocumentTokens(Json* document) : document_(*document) {}

  // Returns false if the document is no tokenizer.json.
  bool Read();

  // An added token has its own id, any other that of the vocabulary.
  std::optional<int64_t> IdOf(const std::string& content) const;
  bool IsAdded(const std::string& content) const {
    return added_.count(content) > 0;
  }
  // The id that the token has, or would have once it is added.
  int64_t FutureIdOf(const std::string& content) const {
    return IdOf(content).value_or(
        std::max(static_cast<int64_t>(vocabulary_->size()), end_));
  }
  // Adds the token, or gives an added token its flags. True: that changed
  // something.
  bool Add(Json token);

 private:
  const Json& list() const { return document_["added_tokens"]; }
  bool ReadVocabulary();

  Json& document_;
  const Json* vocabulary_ = nullptr;
  std::map<std::string, int64_t> pieces_;  // of a vocabulary that is a list
  std::map<std::string, size_t> added_;    // places in the list
  int64_t end_ = 0;                        // behind the list's largest id
};

std::optional<int64_t> DocumentTokens::IdOf(const std::string& content) const {
  if (const auto added = added_.find(content); added != added_.end()) {
    return list()[added->second]["id"].get<int64_t>();
  }
  if (vocabulary_->is_object()) {
    const auto found = vocabulary_->find(content);
    if (found == vocabulary_->end()) return std::nullopt;
    return AsTokenId(*found);
  }
  const auto found = pieces_.find(content);
  if (found == pieces_.end()) return std::nullopt;
  return found->second;
}

bool DocumentTokens::ReadVocabulary() {
  if (!document_.is_object() || !document_.contains("model") ||
      !document_["model"].is_object() ||
      !document_["model"].contains("vocab")) {
    return false;
  }
  vocabulary_ = &document_["model"]["vocab"];
  if (vocabulary_->is_object()) return true;
  if (!vocabulary_->is_array()) return false;
  for (size_t i = 0; i < vocabulary_->size(); ++i) {
    const Json& piece = (*vocabulary_)[i];  // [token, score]
    if (!piece.is_array() || piece.empty() || !piece[0].is_string()) {
      return false;
    }
    pieces_.emplace(piece[0].get<std::string>(), i);
  }
  return true;
}

bool DocumentTokens::Read() {
  if (!ReadVocabulary()) return false;
  if (!document_.contains("added_tokens") ||
      document_["added_tokens"].is_null()) {
    document_["added_tokens"] = Json::array();
  }
  if (!list().is_array()) return false;
  for (size_t i = 0; i < list().size(); ++i) {
    const Json& token = list()[i];
    if (!token.is_object() || !token.contains("content") ||
        !token["content"].is_string() || !token.contains("id") ||
        AsTokenId(token["id"]) == Vocabulary::kNone) {
      return false;
    }
    added_.emplace(token["content"].get<std::string>(), i);
    end_ = std::max(end_, token["id"].get<int64_t>() + 1);
  }
  return true;
}

bool DocumentTokens::Add(Json token) {
  const std::string content = token["content"];
  if (content.empty()) return false;
  const int64_t id = FutureIdOf(content);
  token["id"] = static_cast<uint64_t>(id);
  const auto [place, is_new] = added_.emplace(content, list().size());
  if (is_new) {
    end_ = std::max(end_, id + 1);
    document_["added_tokens"].push_back(std::move(token));
    return true;
  }
  Json& old = document_["added_tokens"][place->second];
  const bool same =
      std::all_of(std::begin(kFlags), std::end(kFlags), [&](const char* flag) {
        return old.contains(flag) ? old[flag] == token[flag]
                                  : token[flag] == false;
      });
  if (!same) old = std::move(token);
  return !same;
}

class Declaring {
 public:
  Declaring(const SideFiles& side, const TokenizerClass* its_class,
            DocumentTokens* tokens)
      : side_(side),
        class_(its_class),
        config_(side.Config()),
        map_(side.SpecialTokens()),
        legacy_(config_.Find(kDecoderKey) == nullptr),
        tokens_(*tokens) {}

  absl::StatusOr<NamedTokens> Run();

 private:
  // The place of `key`, and its value; the value is null where no file has it.
  struct Place {
    JsonPart part;
    const Json* value;
  };
  Place Find(absl::string_view key) const;
  absl::Status FindNamed();
  absl::Status FindExtra();
  absl::Status AddFromDecoder();
  absl::Status AddFromAddedTokens();
  absl::Status AddAt(const JsonPart& part, const std::string& key, int64_t id,
                     Json token);
  void Add(Json token);
  void AddUnlessAdded(const Json& token);

  const SideFiles& side_;
  const TokenizerClass* const class_;
  const JsonPart config_, map_;
  const bool legacy_;
  DocumentTokens& tokens_;
  std::vector<Json> named_, extra_;
  std::set<std::string> special_;  // as files name them
  NamedTokens result_;
};

Declaring::Place Declaring::Find(absl::string_view key) const {
  const std::string name(key);
  if (legacy_ && side_.special_tokens.contains(name)) {
    return {map_, map_.Find(key)};
  }
  return {config_, config_.Find(key)};
}

absl::Status Declaring::FindNamed() {
  const auto named = [&](const std::string& key, Json token) {
    result_.tokens[key] = token["content"];
    named_.push_back(std::move(token));
  };
  for (const char* key : kNamedTokens) {
    Place place = Find(key);
    const bool is_told = side_.config.contains(key) ||
                         (legacy_ && side_.special_tokens.contains(key));
    const bool has_own = class_ != nullptr && class_->specials.count(key) > 0;
    if (!is_told && has_own) {
      const std::string& content = class_->specials.at(key);
      if (std::string(key) == "eos_token" && tokens_.IdOf(content)) {
        result_.end = content;
      }
      named(key, *DeclaredToken(config_, key, content, true));
      continue;
    }
    bool must_be_there = false;
    if (!is_told && map_.Find(key) != nullptr) {
      // transformers does not read the file then; what it names and there is
      // may still be meant.
      place = {map_, map_.Find(key)};
      must_be_there = true;
    }
    if (place.value == nullptr) continue;
    CASTOR_ASSIGN_OR_RETURN(Json token,
                            DeclaredToken(place.part, key, *place.value, true));
    const std::string content = token["content"];
    if (must_be_there && !tokens_.IdOf(content).has_value()) continue;
    special_.insert(content);
    if (std::string(key) == "eos_token") result_.end = content;
    named(key, std::move(token));
  }
  for (const auto& [key, value] : side_.config.items()) {
    if (!absl::EndsWith(key, "_token") || IsNamedKey(key)) continue;
    if (!value.is_string() && !value.is_object()) continue;  // add_bos_token
    CASTOR_ASSIGN_OR_RETURN(Json token,
                            DeclaredToken(config_, key, value, true));
    named(key, std::move(token));
  }
  return absl::OkStatus();
}

absl::Status Declaring::FindExtra() {
  const auto read = [&](const Place& place, absl::string_view key,
                        bool is_special) -> absl::Status {
    if (place.value == nullptr) return absl::OkStatus();
    // A list; an object of named ones, too.
    if (!place.value->is_array() && !place.value->is_object()) {
      return place.part.Error(key, "expected a list of tokens");
    }
    for (const auto& [name, value] : place.value->items()) {
      CASTOR_ASSIGN_OR_RETURN(Json token,
                              DeclaredToken(place.part, key, value, true));
      if (is_special) special_.insert(token["content"]);
      if (place.value->is_object()) {
        result_.tokens[name] = token["content"];
        named_.push_back(std::move(token));
      } else {
        extra_.push_back(std::move(token));
      }
    }
    return absl::OkStatus();
  };
  const Json* const given = config_.Find(kExtraKey);
  const bool has_given = given != nullptr && !given->empty();
  const char* const key = has_given ? kExtraKey : kOlderExtraKey;
  CASTOR_RETURN_IF_ERROR(read({config_, config_.Find(key)}, key, true));
  if (!legacy_) return absl::OkStatus();
  CASTOR_RETURN_IF_ERROR(read({map_, map_.Find(kExtraKey)}, kExtraKey, true));
  if (!extra_.empty()) return absl::OkStatus();
  return read({map_, map_.Find(kOlderExtraKey)}, kOlderExtraKey, false);
}

absl::Status Declaring::AddAt(const JsonPart& part, const std::string& key,
                              int64_t id, Json token) {
  const std::string content = token["content"];
  const int64_t is = tokens_.FutureIdOf(content);
  if (id != is) {
    return part.Error(
        key, absl::StrCat("the id of ", QuotedForMessage(content), " is ", id,
                          " here, but by the vocabulary and the tokens that "
                          "are added before it ",
                          is));
  }
  Add(std::move(token));
  return absl::OkStatus();
}

void Declaring::Add(Json token) {
  if (class_ != nullptr && !class_->normalizes) token["normalized"] = false;
  result_.changed |= tokens_.Add(std::move(token));
}

absl::Status Declaring::AddFromDecoder() {
  CASTOR_ASSIGN_OR_RETURN(const JsonPart decoder, config_.Object(kDecoderKey));
  std::map<int64_t, std::string> keys;
  for (const auto& [key, value] : side_.config[kDecoderKey].items()) {
    int64_t id = 0;
    if (!absl::SimpleAtoi(key, &id) || id < 0 || id > Vocabulary::kMaxId) {
      return decoder.Error(key, "expected an id as the key");
    }
    keys[id] = key;
  }
  for (const auto& [id, key] : keys) {
    CASTOR_ASSIGN_OR_RETURN(const JsonPart part, decoder.Object(key));
    CASTOR_ASSIGN_OR_RETURN(const bool special, part.Bool("special", false));
    CASTOR_ASSIGN_OR_RETURN(
        Json token,
        DeclaredToken(decoder, key, side_.config[kDecoderKey][key], special));
    CASTOR_RETURN_IF_ERROR(AddAt(decoder, key, id, std::move(token)));
  }
  return absl::OkStatus();
}

absl::Status Declaring::AddFromAddedTokens() {
  const JsonPart part = side_.AddedTokens();
  std::map<int64_t, std::string> contents;
  for (const auto& [content, value] : side_.added_tokens.items()) {
    const int32_t id = AsTokenId(value);
    if (id == Vocabulary::kNone) return part.Error(content, "expected an id");
    if (!contents.emplace(id, content).second) {
      return part.Error(content, absl::StrCat("another token has its id ", id));
    }
  }
  for (const auto& [id, content] : contents) {
    // A tokenizer.json's own word of a token counts.
    if (tokens_.IsAdded(content) && tokens_.IdOf(content) == id) continue;
    CASTOR_RETURN_IF_ERROR(AddAt(
        part, content, id,
        *DeclaredToken(part, content, content, special_.count(content) > 0)));
  }
  return absl::OkStatus();
}

void Declaring::AddUnlessAdded(const Json& token) {
  if (!tokens_.IsAdded(token["content"].get<std::string>())) {
    Add(token);
  }
}

absl::StatusOr<NamedTokens> Declaring::Run() {
  CASTOR_RETURN_IF_ERROR(FindNamed());
  CASTOR_RETURN_IF_ERROR(FindExtra());
  CASTOR_RETURN_IF_ERROR(legacy_ ? AddFromAddedTokens() : AddFromDecoder());
  for (const Json& token : named_) AddUnlessAdded(token);
  for (const Json& token : extra_) AddUnlessAdded(token);
  return result_;
}

}  // namespace

absl::StatusOr<Json> DeclaredToken(const JsonPart& part, absl::string_view key,
                                   const Json& value, bool special) {
  Json token = {{"single_word", false},
                {"lstrip", false},
                {"rstrip", false},
                {"normalized", !special},
                {"special", special}};
  if (value.is_string()) {
    token["content"] = value;
    return token;
  }
  if (!value.is_object() || !value.contains("content") ||
      !value["content"].is_string()) {
    return part.Error(key,
                      "expected a token's text, or an object with its "
                      "\"content\"");
  }
  token["content"] = value["content"];
  CASTOR_ASSIGN_OR_RETURN(const JsonPart object,
                          JsonPart::Make(value, part.PathOf(key)));
  for (const char* flag : kFlags) {
    if (std::string(flag) == "special") continue;
    CASTOR_ASSIGN_OR_RETURN(const bool is_set,
                            object.Bool(flag, token[flag].get<bool>()));
    token[flag] = is_set;
  }
  return token;
}

absl::StatusOr<NamedTokens> AddDeclaredTokens(const SideFiles& side,
                                              const TokenizerClass* its_class,
                                              Json* document) {
  DocumentTokens tokens(document);
  if (!tokens.Read()) return NamedTokens();
  return Declaring(side, its_class, &tokens).Run();
}

}  // namespace castor::text
