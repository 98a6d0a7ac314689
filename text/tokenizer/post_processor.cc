#include "text/tokenizer/post_processor.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "nlohmann/json.hpp"
#include "text/tokenizer/vocabulary.h"

namespace castor::text {
namespace {

// [token, id]
absl::StatusOr<int32_t> ReadTokenAndId(const JsonPart& part,
                                       absl::string_view key) {
  CASTOR_ASSIGN_OR_RETURN(const Json* const pair, part.List(key));
  const int32_t id =
      pair->size() == 2 ? AsTokenId((*pair)[1]) : Vocabulary::kNone;
  if (id == Vocabulary::kNone) {
    return part.Error(key, "expected a token and its id, [\"...\", 1]");
  }
  return id;
}

// Reads BERT's post-processor, or RoBERTa's, with the file's names of [SEP] and
// [CLS]. In a pair RoBERTa's has two [SEP] between the texts, and one segment.
absl::StatusOr<PostProcessor> ReadBert(const JsonPart& part, bool is_roberta) {
  PostProcessor result;
  CASTOR_ASSIGN_OR_RETURN(const int32_t cls, ReadTokenAndId(part, "cls"));
  CASTOR_ASSIGN_OR_RETURN(const int32_t sep, ReadTokenAndId(part, "sep"));
  result.prefix.push_back(cls);
  result.suffix.push_back(sep);
  const int32_t second = is_roberta ? 0 : 1;
  result.pair = {{cls, 0}, {PairPiece::kFirst, 0}, {sep, 0}};
  if (is_roberta) result.pair.push_back({sep, 0});
  result.pair.push_back({PairPiece::kSecond, second});
  result.pair.push_back({sep, second});
  return result;
}

// Appends the ids of the special token that a template calls `name`.
absl::Status AppendSpecialToken(const JsonPart& special_tokens,
                                const std::string& name,
                                std::vector<int32_t>* ids) {
  CASTOR_ASSIGN_OR_RETURN(const JsonPart token, special_tokens.Object(name));
  CASTOR_ASSIGN_OR_RETURN(const Json* const list, token.List("ids"));
  for (const Json& value : *list) {
    const int32_t id = AsTokenId(value);
    if (id == Vocabulary::kNone) {
      return token.Error("ids", absl::StrCat("expected ids of tokens, found ",
                                             DescribeJson(value)));
    }
    ids->push_back(id);
  }
  return absl::OkStatus();
}

// Each text gets them, however short it is.
constexpr size_t kMaxAddedIds = 1024;
constexpr int64_t kMostSegments = 1 << 20;

// A template's pieces for a pair; none where it has not both texts, once and in
// their order.
absl::StatusOr<std::vector<PairPiece>> ReadPair(const JsonPart& part) {
  std::vector<PairPiece> pair;
  if (part.Find("pair") == nullptr) return pair;
  CASTOR_ASSIGN_OR_RETURN(const std::vector<JsonPart> pieces,
                          part.Objects("pair"));
  std::string texts;
  for (const JsonPart& piece : pieces) {
    const bool is_text = piece.Find("Sequence") != nullptr;
    CASTOR_ASSIGN_OR_RETURN(
        const JsonPart of, piece.Object(is_text ? "Sequence" : "SpecialToken"));
    CASTOR_ASSIGN_OR_RETURN(const std::string id, of.RequiredString("id"));
    CASTOR_ASSIGN_OR_RETURN(
        const int64_t segment,
        of.Int("type_id", 0, {.min = 0, .max = kMostSegments}));
    if (is_text) {
      texts += id;
      pair.push_back({id == "A" ? PairPiece::kFirst : PairPiece::kSecond,
                      static_cast<int32_t>(segment)});
      continue;
    }
    CASTOR_ASSIGN_OR_RETURN(const JsonPart special_tokens,
                            part.Object("special_tokens"));
    std::vector<int32_t> ids;
    CASTOR_RETURN_IF_ERROR(AppendSpecialToken(special_tokens, id, &ids));
    for (const int32_t token : ids) {
      pair.push_back({token, static_cast<int32_t>(segment)});
    }
    if (pair.size() > kMaxAddedIds) return std::vector<PairPiece>();
  }
  if (texts != "AB") pair.clear();
  return pair;
}

absl::StatusOr<PostProcessor> ReadTemplate(const JsonPart& part) {
  PostProcessor result;
  CASTOR_ASSIGN_OR_RETURN(const std::vector<JsonPart> pieces,
                          part.Objects("single"));
  bool has_text = false;
  for (const JsonPart& piece : pieces) {
    if (piece.Find("Sequence") != nullptr) {
      CASTOR_ASSIGN_OR_RETURN(const JsonPart text, piece.Object("Sequence"));
      CASTOR_ASSIGN_OR_RETURN(const std::string id, text.RequiredString("id"));
      if (id != "A" || has_text) {
        return part.Error("single", "expected the sequence A, once");
      }
      has_text = true;
      continue;
    }
    CASTOR_ASSIGN_OR_RETURN(const JsonPart token, piece.Object("SpecialToken"));
    CASTOR_ASSIGN_OR_RETURN(const std::string name, token.RequiredString("id"));
    CASTOR_ASSIGN_OR_RETURN(const JsonPart special_tokens,
                            part.Object("special_tokens"));
    CASTOR_RETURN_IF_ERROR(AppendSpecialToken(
        special_tokens, name, has_text ? &result.suffix : &result.prefix));
    if (result.prefix.size() + result.suffix.size() > kMaxAddedIds) {
      return part.Error("single",
                        absl::StrCat("adds more than ", kMaxAddedIds,
                                     " tokens to a text, the most that are "
                                     "allowed"));
    }
  }
  if (!has_text) return part.Error("single", "expected the sequence A, once");
  CASTOR_ASSIGN_OR_RETURN(result.pair, ReadPair(part));
  return result;
}

absl::StatusOr<PostProcessor> ReadSequence(const JsonPart& part) {
  PostProcessor result;
  CASTOR_ASSIGN_OR_RETURN(const std::vector<JsonPart> parts,
                          part.Objects("processors"));
  for (const JsonPart& each : parts) {
    CASTOR_ASSIGN_OR_RETURN(PostProcessor one, ReadPostProcessor(each));
    if (one.prefix.empty() && one.suffix.empty() && one.pair.empty()) continue;
    if (!result.prefix.empty() || !result.suffix.empty()) {
      return part.Error("processors",
                        "more than one of them adds tokens, which is not "
                        "supported");
    }
    result = std::move(one);
  }
  return result;
}

}  // namespace

absl::StatusOr<PostProcessor> ReadPostProcessor(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const std::string type, part.Type());
  if (type == "TemplateProcessing") return ReadTemplate(part);
  if (type == "BertProcessing") return ReadBert(part, /*is_roberta=*/false);
  if (type == "RobertaProcessing") return ReadBert(part, /*is_roberta=*/true);
  if (type == "Sequence") return ReadSequence(part);
  if (type == "ByteLevel") return PostProcessor();
  return part.Unsupported(type,
                          "BertProcessing, ByteLevel, RobertaProcessing, "
                          "Sequence, TemplateProcessing");
}

}  // namespace castor::text
