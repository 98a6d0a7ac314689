#include "text/tokenizer/vocabulary_document.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/annotate.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/unicode/unicode_sets.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

// Qwen2Tokenizer cuts text into the matches of this.
constexpr char kQwen2Pieces[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

absl::StatusOr<std::string> ReadText(const std::string& path) {
  CASTOR_ASSIGN_OR_RETURN(std::string text,
                          ReadSmallFile(path, kMaxVocabularyBytes));
  if (IsValidUtf8(text)) return text;
  return absl::InvalidArgumentError(absl::StrCat(path, " is not UTF-8"));
}

// The file's lines, without their ends.
std::vector<absl::string_view> LinesOf(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (absl::string_view& line : lines) absl::ConsumeSuffix(&line, "\r");
  return lines;
}

absl::StatusOr<Json> ReadMerges(const std::string& path) {
  CASTOR_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  Json merges = Json::array();
  int64_t number = 0;
  for (const absl::string_view line : LinesOf(text)) {
    ++number;
    if (line.empty() || absl::StartsWith(line, "#version")) continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ');
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ", line ", number,
                       ": expected two tokens with a space between them"));
    }
    merges.push_back({std::string(parts[0]), std::string(parts[1])});
  }
  return merges;
}

// Byte pairs over bytes, which all classes but for their pieces have in common.
absl::StatusOr<Json> ReadBytePairs(const SideFiles& side,
                                   const TokenizerClass& its_class) {
  const std::string path = absl::StrCat(side.directory, "/", kBytePairsName);
  CASTOR_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  absl::StatusOr<Json> vocabulary = ParseStrictJson(text, {.max_depth = 2});
  if (!vocabulary.ok()) return Annotate(path, vocabulary.status());
  if (!vocabulary->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected an object {\"token\": id, ...}"));
  }
  CASTOR_ASSIGN_OR_RETURN(
      Json merges, ReadMerges(absl::StrCat(side.directory, "/", kMergesName)));
  CASTOR_ASSIGN_OR_RETURN(const bool add_prefix_space,
                          side.Config().Bool("add_prefix_space", false));
  Json document = {
      {"model",
       {{"type", "BPE"},
        {"vocab", *std::move(vocabulary)},
        {"merges", std::move(merges)}}},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}}},
      {"decoder", {{"type", "ByteLevel"}}}};
  if (its_class.name == "Qwen2Tokenizer") {
    document["normalizer"] = {{"type", "NFC"}};
    Json& bytes = document["pre_tokenizer"];
    bytes["use_regex"] = false;
    document["pre_tokenizer"] = {{"type", "Sequence"},
                                 {"pretokenizers",
                                  {{{"type", "Split"},
                                    {"pattern", {{"Regex", kQwen2Pieces}}},
                                    {"behavior", "Isolated"},
                                    {"invert", false}},
                                   bytes}}};
  }
  return document;
}

absl::StatusOr<Json> ReadWordPieces(const SideFiles& side) {
  CASTOR_ASSIGN_OR_RETURN(
      const std::string text,
      ReadText(absl::StrCat(side.directory, "/", kWordPiecesName)));
  Json vocabulary = Json::object();
  uint64_t id = 0;
  for (absl::string_view line : LinesOf(text)) {
    while (!line.empty()) {
      const size_t last = PreviousPlace(line, line.size());
      size_t place = last;
      if (!Has(NextCodePoint(line, &place), Trait::kWhitespace)) break;
      line = line.substr(0, last);
    }
    // The last place counts where a token is there twice.
    vocabulary[std::string(line)] = id++;
  }
  const JsonPart config = side.Config();
  CASTOR_ASSIGN_OR_RETURN(const bool lower, config.Bool("do_lower_case", true));
  CASTOR_ASSIGN_OR_RETURN(const bool chinese,
                          config.Bool("tokenize_chinese_chars", true));
  // Where the file does not say, accents are stripped from text that is made
  // lower case.
  CASTOR_ASSIGN_OR_RETURN(const bool accents,
                          config.Bool("strip_accents", lower));
  return Json{{"model",
               {{"type", "WordPiece"},
                {"unk_token", "[UNK]"},
                {"continuing_subword_prefix", "##"},
                {"max_input_chars_per_word", 100},
                {"vocab", std::move(vocabulary)}}},
              {"normalizer",
               {{"type", "BertNormalizer"},
                {"clean_text", true},
                {"handle_chinese_chars", chinese},
                {"strip_accents", accents},
                {"lowercase", lower}}},
              {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
              {"decoder",
               {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
}

// Returns the token of a key, and its id. InvalidArgument: there is none.
absl::StatusOr<std::pair<std::string, uint64_t>> TokenAround(
    const JsonPart& config, const std::map<std::string, std::string>& tokens,
    absl::FunctionRef<std::optional<int64_t>(const std::string&)> id_of,
    const std::string& key) {
  const auto found = tokens.find(key);
  const std::optional<int64_t> id =
      found == tokens.end() ? std::nullopt : id_of(found->second);
  if (!id.has_value()) {
    return config.Error(key, "is put around texts, and there is none");
  }
  return std::pair(found->second, static_cast<uint64_t>(*id));
}

}  // namespace

absl::StatusOr<bool> PutClassParts(const SideFiles& side,
                                   const TokenizerClass& its_class,
                                   Json* document) {
  if (its_class.name != "LlamaTokenizer" || !document->is_object()) {
    return false;
  }
  const JsonPart config = side.Config();
  CASTOR_ASSIGN_OR_RETURN(const bool legacy, config.Bool("legacy", false));
  CASTOR_ASSIGN_OR_RETURN(const bool adds_space,
                          config.Bool("add_prefix_space", true));
  (*document)["normalizer"] = nullptr;
  (*document)["pre_tokenizer"] = {{"type", "Metaspace"},
                                  {"replacement", "\u2581"},
                                  {"prepend_scheme", !adds_space ? "never"
                                                     : legacy    ? "always"
                                                                 : "first"},
                                  {"split", false}};
  return true;
}

absl::StatusOr<Json> MakeTemplate(
    const JsonPart& config, const std::map<std::string, std::string>& tokens,
    absl::FunctionRef<std::optional<int64_t>(const std::string&)> id_of,
    const std::vector<const char*>& before,
    const std::vector<const char*>& after) {
  Json single = Json::array(), special_tokens = Json::object();
  const auto add = [&](const char* key) -> absl::Status {
    CASTOR_ASSIGN_OR_RETURN(const auto token,
                            TokenAround(config, tokens, id_of, key));
    const auto& [content, id] = token;
    single.push_back({{"SpecialToken", {{"id", content}, {"type_id", 0}}}});
    special_tokens[content] = {{"ids", {id}}};
    return absl::OkStatus();
  };
  for (const char* key : before) CASTOR_RETURN_IF_ERROR(add(key));
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  for (const char* key : after) CASTOR_RETURN_IF_ERROR(add(key));
  return Json{{"type", "TemplateProcessing"},
              {"single", std::move(single)},
              {"special_tokens", std::move(special_tokens)}};
}

absl::StatusOr<VocabularyDocument> MakeVocabularyDocument(
    const SideFiles& side, const TokenizerClass& its_class) {
  VocabularyDocument made;
  Json& document = made.document;
  CASTOR_ASSIGN_OR_RETURN(document,
                          its_class.kind == VocabularyKind::kWordPieces
                              ? ReadWordPieces(side)
                              : ReadBytePairs(side, its_class));
  document["version"] = "1.0";
  CASTOR_ASSIGN_OR_RETURN(made.named,
                          AddDeclaredTokens(side, &its_class, &document));
  if (its_class.kind == VocabularyKind::kWordPieces &&
      made.named.tokens.count("unk_token") > 0) {
    document["model"]["unk_token"] = made.named.tokens["unk_token"];
  }
  const auto id_of = [&](const std::string& content) -> std::optional<int64_t> {
    for (const Json& token : document["added_tokens"]) {
      if (token["content"] == content) return token["id"].get<int64_t>();
    }
    return std::nullopt;
  };
  const JsonPart config = side.Config();
  const auto& tokens = made.named.tokens;
  if (its_class.around == Around::kClsSep) {
    Json processor = {{"type", its_class.kind == VocabularyKind::kWordPieces
                                   ? "BertProcessing"
                                   : "RobertaProcessing"}};
    for (const char* key : {"cls", "sep"}) {
      const std::string name = absl::StrCat(key, "_token");
      CASTOR_ASSIGN_OR_RETURN(const auto token,
                              TokenAround(config, tokens, id_of, name));
      processor[key] = {token.first, token.second};
    }
    document["post_processor"] = std::move(processor);
    return made;
  }
  std::vector<const char*> before, after;
  // If there is no such token, transformers puts nothing there.
  const auto keep = [&](const char* add, const char* key,
                        std::vector<const char*>* keys) -> absl::Status {
    CASTOR_ASSIGN_OR_RETURN(const bool adds, config.Bool(add, false));
    if (adds && tokens.count(key) > 0) keys->push_back(key);
    return absl::OkStatus();
  };
  CASTOR_RETURN_IF_ERROR(keep("add_bos_token", "bos_token", &before));
  CASTOR_RETURN_IF_ERROR(keep("add_eos_token", "eos_token", &after));
  CASTOR_ASSIGN_OR_RETURN(document["post_processor"],
                          MakeTemplate(config, tokens, id_of, before, after));
  return made;
}

}  // namespace castor::text
