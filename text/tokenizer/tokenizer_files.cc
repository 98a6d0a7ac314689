#include "text/tokenizer/tokenizer_files.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace castor::text {
namespace {

constexpr int64_t kMaxJsonBytes = int64_t{16} << 20;
constexpr char kConfigName[] = "tokenizer_config.json";
constexpr char kSpecialTokensName[] = "special_tokens_map.json";
constexpr char kAddedTokensName[] = "added_tokens.json";
constexpr char kModelConfigName[] = "config.json";

JsonPart PartOf(const std::string& directory, const char* name,
                const Json& object) {
  // It was an object when it was read.
  return JsonPart::Make(object, absl::StrCat(directory, "/", name)).value();
}

}  // namespace

absl::StatusOr<VocabularyFiles> FindVocabulary(const std::string& directory) {
  VocabularyFiles files;
  CASTOR_ASSIGN_OR_RETURN(const bool has_json,
                          FindFile(directory, kTokenizerJsonName));
  if (has_json) files.kinds.push_back(VocabularyKind::kTokenizerJson);
  for (const char* name : {kLlamaModelName, kT5ModelName}) {
    if (!files.sentence_piece.empty()) break;
    CASTOR_ASSIGN_OR_RETURN(const bool has_model, FindFile(directory, name));
    if (!has_model) continue;
    files.sentence_piece = name;
    files.kinds.push_back(VocabularyKind::kSentencePiece);
  }
  CASTOR_ASSIGN_OR_RETURN(const bool has_vocabulary,
                          FindFile(directory, kBytePairsName));
  CASTOR_ASSIGN_OR_RETURN(const bool has_merges,
                          FindFile(directory, kMergesName));
  if (has_vocabulary && has_merges) {
    files.kinds.push_back(VocabularyKind::kBytePairs);
  }
  CASTOR_ASSIGN_OR_RETURN(const bool has_words,
                          FindFile(directory, kWordPiecesName));
  if (has_words) files.kinds.push_back(VocabularyKind::kWordPieces);
  if (!files.kinds.empty()) return files;
  if (has_vocabulary != has_merges) {
    files.missing = has_merges ? "it has a merges.txt and no vocab.json"
                               : "it has a vocab.json and no merges.txt";
  } else {
    files.missing =
        "it has no tokenizer.json, no tokenizer.model or spiece.model, no "
        "vocab.json with a merges.txt, and no vocab.txt";
  }
  return files;
}

absl::StatusOr<Json> ReadJsonFile(const std::string& directory,
                                  absl::string_view name) {
  CASTOR_ASSIGN_OR_RETURN(const bool is_there, FindFile(directory, name));
  if (!is_there) return Json::object();
  const std::string path = absl::StrCat(directory, "/", name);
  CASTOR_ASSIGN_OR_RETURN(const std::string text,
                          ReadSmallFile(path, kMaxJsonBytes));
  absl::StatusOr<Json> json = ParseStrictJson(text, {.max_depth = 64});
  if (!json.ok()) return Annotate(path, json.status());
  CASTOR_RETURN_IF_ERROR(JsonPart::Make(*json, path).status());
  return json;
}

absl::StatusOr<SideFiles> ReadSideFiles(const std::string& directory) {
  SideFiles files;
  files.directory = directory;
  CASTOR_ASSIGN_OR_RETURN(files.config, ReadJsonFile(directory, kConfigName));
  CASTOR_ASSIGN_OR_RETURN(files.special_tokens,
                          ReadJsonFile(directory, kSpecialTokensName));
  CASTOR_ASSIGN_OR_RETURN(files.added_tokens,
                          ReadJsonFile(directory, kAddedTokensName));
  CASTOR_ASSIGN_OR_RETURN(files.model_config,
                          ReadJsonFile(directory, kModelConfigName));
  return files;
}

JsonPart SideFiles::Config() const {
  return PartOf(directory, kConfigName, config);
}
JsonPart SideFiles::SpecialTokens() const {
  return PartOf(directory, kSpecialTokensName, special_tokens);
}
JsonPart SideFiles::AddedTokens() const {
  return PartOf(directory, kAddedTokensName, added_tokens);
}
JsonPart SideFiles::ModelConfig() const {
  return PartOf(directory, kModelConfigName, model_config);
}

}  // namespace castor::text
