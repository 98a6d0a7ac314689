#include "text/tokenizer/tokenizer.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/annotate.h"
#include "base/enough_memory.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/allowance.h"
#include "text/tokenizer/declared_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pieces.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/read_model.h"
#include "text/tokenizer/read_normalizer.h"
#include "text/tokenizer/sentence_piece.h"
#include "text/tokenizer/sentence_piece_directory.h"
#include "text/tokenizer/sentence_piece_file.h"
#include "text/tokenizer/tokenizer_class.h"
#include "text/tokenizer/tokenizer_files.h"
#include "text/tokenizer/unicode/utf8.h"
#include "text/tokenizer/vocabulary_document.h"

namespace castor::text {
namespace {

constexpr size_t kMaxInputBytes = size_t{1} << 30;

absl::StatusOr<Json> ParseDocument(absl::string_view text,
                                   const std::string& source) {
  absl::StatusOr<Json> document = ParseStrictJson(text);
  if (!document.ok()) return Annotate(source, document.status());
  return document;
}

}  // namespace

struct Tokenizer::Parts {
  std::unique_ptr<const Normalizer> normalizer;       // may be null
  std::unique_ptr<const PreTokenizer> pre_tokenizer;  // may be null
  std::unique_ptr<const Model> model;
  AddedTokens added_tokens;
  PostProcessor post_processor;
  std::unique_ptr<const Decoder> decoder;  // may be null
  std::vector<bool> is_special;            // by id
  std::optional<int32_t> end_token;
  std::map<std::string, std::string> named_tokens;
  uint64_t checksum = 0;
  std::string model_place;  // in the file, for errors

  absl::Status Read(const Json& document, const std::string& source);
  absl::Status ReadSentencePiece(const SideFiles& side,
                                 const TokenizerClass& its_class,
                                 absl::string_view name);
  absl::Status ReadFiles(const std::string& directory);
  void FindSpecial();
  absl::Status CheckIds(const JsonPart& root) const;
  std::optional<int32_t> Find(absl::string_view token) const;
  std::optional<absl::string_view> TokenOf(int32_t id) const;
  // Appends the ids of what lies between added tokens, until there are `most`.
  absl::Status EncodePart(absl::string_view text, bool at_start, size_t most,
                          Allowance* allowance,
                          std::vector<int32_t>* ids) const;
  absl::Status EncodePieces(Pieces* pieces, size_t most,
                            std::vector<int32_t>* ids) const;
  absl::Status EncodeText(absl::string_view text, size_t most,
                          std::vector<int32_t>* ids) const;
};

absl::Status Tokenizer::Parts::Read(const Json& document,
                                    const std::string& source) {
  CASTOR_ASSIGN_OR_RETURN(const JsonPart root,
                          JsonPart::Make(document, source));
  CASTOR_ASSIGN_OR_RETURN(const std::string version,
                          root.String("version", "1.0"));
  if (version != "1.0") return root.Error("version", "expected \"1.0\"");
  if (root.Find("normalizer") != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(const JsonPart part, root.Object("normalizer"));
    CASTOR_ASSIGN_OR_RETURN(normalizer, ReadNormalizer(part));
  }
  if (root.Find("pre_tokenizer") != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(const JsonPart part, root.Object("pre_tokenizer"));
    CASTOR_ASSIGN_OR_RETURN(pre_tokenizer, ReadPreTokenizer(part));
  }
  if (root.Find("post_processor") != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(const JsonPart part, root.Object("post_processor"));
    CASTOR_ASSIGN_OR_RETURN(post_processor, ReadPostProcessor(part));
  }
  if (root.Find("decoder") != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(const JsonPart part, root.Object("decoder"));
    CASTOR_ASSIGN_OR_RETURN(decoder, ReadDecoder(part));
  }
  CASTOR_ASSIGN_OR_RETURN(const JsonPart part, root.Object("model"));
  CASTOR_ASSIGN_OR_RETURN(model, ReadModel(part));
  model_place = part.path();
  CASTOR_ASSIGN_OR_RETURN(
      added_tokens,
      AddedTokens::Read(root, model->vocabulary(), normalizer.get()));
  FindSpecial();
  return CheckIds(root);
}

absl::Status Tokenizer::Parts::ReadSentencePiece(
    const SideFiles& side, const TokenizerClass& its_class,
    absl::string_view name) {
  const std::string path = absl::StrCat(side.directory, "/", name);
  CASTOR_ASSIGN_OR_RETURN(const std::string bytes,
                          ReadSmallFile(path, kMaxVocabularyBytes));
  const absl::StatusOr<SentencePieceFile> file = ReadSentencePieceFile(bytes);
  CASTOR_RETURN_IF_ERROR(Annotate(path, file.status()));
  CASTOR_ASSIGN_OR_RETURN(
      const SentencePieceConfig config,
      ReadSentencePieceConfig(side, its_class, file->vocabulary));
  CASTOR_ASSIGN_OR_RETURN(const JsonPart root,
                          JsonPart::Make(config.document, side.directory));
  CASTOR_ASSIGN_OR_RETURN(added_tokens,
                          AddedTokens::Read(root, file->vocabulary, nullptr));
  CASTOR_ASSIGN_OR_RETURN(const JsonPart around, root.Object("post_processor"));
  CASTOR_ASSIGN_OR_RETURN(post_processor, ReadPostProcessor(around));
  std::set<std::string> added;
  for (const Json& token : config.document["added_tokens"]) {
    added.insert(token["content"].get<std::string>());
  }
  absl::StatusOr<SentencePieceParts> parts =
      MakeSentencePiece(*file, config.legacy, std::move(added));
  CASTOR_RETURN_IF_ERROR(Annotate(path, parts.status()));
  model_place = path;
  model = std::move(parts->model);
  decoder = std::move(parts->decoder);
  const std::string said =
      absl::StrCat(config.document.dump(), config.legacy ? "legacy" : "");
  checksum = XXH3_64bits_withSeed(said.data(), said.size(),
                                  XXH3_64bits(bytes.data(), bytes.size()));
  FindSpecial();
  end_token = Find(config.end_token);
  named_tokens = config.named_tokens;
  return CheckIds(root);
}

absl::Status Tokenizer::Parts::ReadFiles(const std::string& directory) {
  CASTOR_ASSIGN_OR_RETURN(VocabularyFiles files, FindVocabulary(directory));
  if (files.kinds.empty()) {
    return absl::NotFoundError(absl::StrCat(
        directory,
        ": there is no tokenizer that castor reads: ", files.missing));
  }
  CASTOR_ASSIGN_OR_RETURN(const SideFiles side, ReadSideFiles(directory));
  Json document;
  NamedTokens named;
  std::string source = directory;
  const auto mix = [&](const Json& part) {
    const std::string text = part.dump();
    checksum = XXH3_64bits_withSeed(text.data(), text.size(), checksum);
  };
  if (files.kinds[0] == VocabularyKind::kTokenizerJson) {
    absl::StrAppend(&source, "/", kTokenizerJsonName);
    CASTOR_ASSIGN_OR_RETURN(const std::string text,
                            ReadSmallFile(source, kMaxVocabularyBytes));
    checksum = XXH3_64bits(text.data(), text.size());
    CASTOR_ASSIGN_OR_RETURN(document, ParseDocument(text, source));
    CASTOR_ASSIGN_OR_RETURN(const TokenizerClass* const its_class,
                            ClassOfTokenizerJson(side, text));
    CASTOR_ASSIGN_OR_RETURN(named,
                            AddDeclaredTokens(side, its_class, &document));
    if (its_class != nullptr) {
      CASTOR_ASSIGN_OR_RETURN(const bool has_parts,
                              PutClassParts(side, *its_class, &document));
      if (has_parts) mix(document["pre_tokenizer"]);
    }
  } else {
    CASTOR_ASSIGN_OR_RETURN(const TokenizerClass* const its_class,
                            ClassOfVocabulary(side, &files));
    if (files.kinds[0] == VocabularyKind::kSentencePiece) {
      return ReadSentencePiece(side, *its_class, files.sentence_piece);
    }
    absl::StrAppend(&source, "/",
                    its_class->kind == VocabularyKind::kWordPieces
                        ? kWordPiecesName
                        : kBytePairsName);
    CASTOR_ASSIGN_OR_RETURN(VocabularyDocument made,
                            MakeVocabularyDocument(side, *its_class));
    document = std::move(made.document);
    named = std::move(made.named);
    const std::string all = document.dump();
    checksum = XXH3_64bits(all.data(), all.size());
  }
  if (named.changed) mix(document["added_tokens"]);
  CASTOR_RETURN_IF_ERROR(Read(document, source));
  end_token = Find(named.end);
  named_tokens = std::move(named.tokens);
  return absl::OkStatus();
}

std::optional<int32_t> Tokenizer::Parts::Find(absl::string_view token) const {
  if (token.empty()) return std::nullopt;
  if (const auto id = added_tokens.Find(token); id.has_value()) return id;
  const int32_t id = model->vocabulary().Find(token);
  if (id == Vocabulary::kNone) return std::nullopt;
  return id;
}

void Tokenizer::Parts::FindSpecial() {
  const int32_t end =
      std::max(model->vocabulary().end_id(), added_tokens.end_id());
  is_special.resize(end);
  for (int32_t id = 0; id < end; ++id) {
    const std::optional<absl::string_view> token = TokenOf(id);
    is_special[id] = token.has_value() && added_tokens.IsSpecial(*token);
  }
}

absl::Status Tokenizer::Parts::CheckIds(const JsonPart& root) const {
  for (const auto* ids : {&post_processor.prefix, &post_processor.suffix}) {
    for (const int32_t id : *ids) {
      if (TokenOf(id).has_value()) continue;
      return root.Error("post_processor",
                        absl::StrCat("no token has the id ", id));
    }
  }
  for (const PairPiece& piece : post_processor.pair) {
    if (piece.token < 0 || TokenOf(piece.token).has_value()) continue;
    return root.Error("post_processor",
                      absl::StrCat("no token has the id ", piece.token));
  }
  return absl::OkStatus();
}

std::optional<absl::string_view> Tokenizer::Parts::TokenOf(int32_t id) const {
  const auto added = added_tokens.TokenOf(id);
  return added.has_value() ? added : model->vocabulary().TokenOf(id);
}

absl::Status Tokenizer::Parts::EncodePieces(Pieces* pieces, size_t most,
                                            std::vector<int32_t>* ids) const {
  if (pre_tokenizer != nullptr) {
    CASTOR_RETURN_IF_ERROR(pre_tokenizer->Apply(pieces));
  }
  for (const Piece& piece : pieces->pieces) {
    if (ids->size() >= most) break;
    const absl::string_view text = (*pieces)[piece];
    const bool is_first = pieces->at_start && &piece == pieces->pieces.data();
    const size_t before = ids->size();
    absl::Status status =
        is_first ? model->TokenizeFirst(text, pieces->allowance, ids)
                 : model->Tokenize(text, pieces->allowance, ids);
    if (status.ok()) {
      status = pieces->allowance->Take(text.size() + ids->size() - before);
    }
    if (!status.ok()) return Annotate(model_place, status);
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::Parts::EncodePart(absl::string_view text, bool at_start,
                                          size_t most, Allowance* allowance,
                                          std::vector<int32_t>* ids) const {
  NormalizedText normalized = {std::string(text), allowance, at_start};
  if (normalizer != nullptr) {
    CASTOR_RETURN_IF_ERROR(normalizer->Apply(&normalized));
  }
  const absl::string_view whole = normalized.text;
  return added_tokens.Split(
      whole, /*normalized=*/true,
      [&](size_t begin, size_t end, int32_t id) -> absl::Status {
        if (ids->size() >= most) return absl::OkStatus();
        if (id != Vocabulary::kNone) {
          ids->push_back(id);
          return absl::OkStatus();
        }
        Pieces pieces;
        pieces.allowance = allowance;
        pieces.at_start = normalized.at_start && begin == 0;
        pieces.pieces.push_back({0, static_cast<uint32_t>(end - begin)});
        if (begin == 0 && end == whole.size()) {
          pieces.text = std::move(normalized.text);
        } else {
          pieces.text = std::string(whole.substr(begin, end - begin));
        }
        return EncodePieces(&pieces, most, ids);
      });
}

absl::Status Tokenizer::Parts::EncodeText(absl::string_view text, size_t most,
                                          std::vector<int32_t>* ids) const {
  Allowance allowance(text.size());
  return added_tokens.Split(
      text, /*normalized=*/false,
      [&](size_t begin, size_t end, int32_t id) -> absl::Status {
        if (ids->size() >= most) return absl::OkStatus();
        if (id != Vocabulary::kNone) {
          ids->push_back(id);
          return absl::OkStatus();
        }
        return EncodePart(text.substr(begin, end - begin), begin == 0, most,
                          &allowance, ids);
      });
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts)
    : parts_(std::move(parts)) {}

Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::Load(
    const std::string& directory) {
  return IfMemoryAllows(
      directory, [&]() -> absl::StatusOr<std::unique_ptr<const Tokenizer>> {
        auto parts = std::make_unique<Parts>();
        CASTOR_RETURN_IF_ERROR(parts->ReadFiles(directory));
        return std::unique_ptr<const Tokenizer>(
            new Tokenizer(std::move(parts)));
      });
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::Parse(
    absl::string_view json, const std::string& source) {
  return IfMemoryAllows(
      source, [&]() -> absl::StatusOr<std::unique_ptr<const Tokenizer>> {
        CASTOR_ASSIGN_OR_RETURN(const Json document,
                                ParseDocument(json, source));
        auto parts = std::make_unique<Parts>();
        CASTOR_RETURN_IF_ERROR(parts->Read(document, source));
        parts->checksum = XXH3_64bits(json.data(), json.size());
        return std::unique_ptr<const Tokenizer>(
            new Tokenizer(std::move(parts)));
      });
}

absl::Status Tokenizer::Encode(absl::string_view text,
                               const EncodeOptions& options,
                               std::vector<int32_t>* ids) const {
  if (text.size() > kMaxInputBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a text of ", text.size(), " bytes; at most ",
                     kMaxInputBytes, " are tokenized at once"));
  }
  const bool adds = options.add_special_tokens;
  const size_t added = adds ? prefix().size() + suffix().size() : 0;
  if (options.max_length < 0 ||
      (options.max_length > 0 &&
       static_cast<size_t>(options.max_length) < added)) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_length is ", options.max_length,
                     ", but the tokenizer adds ", added, " tokens"));
  }
  const size_t begin = ids->size();
  const auto encode = [&]() -> absl::Status {
    if (adds) ids->insert(ids->end(), prefix().begin(), prefix().end());
    size_t most = ids->max_size();
    if (options.max_length > 0) {
      most = begin + static_cast<size_t>(options.max_length) -
             (adds ? suffix().size() : 0);
    }
    if (IsValidUtf8(text)) {
      CASTOR_RETURN_IF_ERROR(parts_->EncodeText(text, most, ids));
    } else {
      std::string valid;
      AppendValidUtf8(text, &valid);
      CASTOR_RETURN_IF_ERROR(parts_->EncodeText(valid, most, ids));
    }
    if (ids->size() > most) ids->resize(most);
    if (adds) ids->insert(ids->end(), suffix().begin(), suffix().end());
    return absl::OkStatus();
  };
  const absl::Status status = IfMemoryAllows("the ids of a text", encode);
  if (!status.ok()) ids->resize(begin);
  return status;
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const int32_t> ids,
                                              bool skip_special_tokens) const {
  return IfMemoryAllows(
      "the text of ids", [&]() -> absl::StatusOr<std::string> {
        DecodedText text = {};
        size_t bytes = 0;
        for (const int32_t id : ids) {
          if (id < 0) {
            return absl::InvalidArgumentError(
                absl::StrCat(id, " is no id of a token"));
          }
          const std::optional<absl::string_view> token = parts_->TokenOf(id);
          if (!token.has_value() || (skip_special_tokens && IsSpecial(id))) {
            continue;
          }
          bytes += token->size() + 1;
          if (bytes > kMaxInputBytes) {
            return absl::ResourceExhaustedError(
                absl::StrCat("the tokens of ", ids.size(),
                             " ids have more than ", kMaxInputBytes, " bytes"));
          }
          text.tokens.emplace_back(*token);
        }
        if (parts_->decoder == nullptr) return absl::StrJoin(text.tokens, " ");
        Allowance allowance(bytes);
        text.allowance = &allowance;
        CASTOR_RETURN_IF_ERROR(parts_->decoder->Apply(&text));
        return absl::StrJoin(text.tokens, "");
      });
}

int64_t Tokenizer::vocabulary_size() const {
  return static_cast<int64_t>(parts_->is_special.size());
}

std::optional<int32_t> Tokenizer::FindToken(absl::string_view token) const {
  return parts_->Find(token);
}

const std::map<std::string, std::string>& Tokenizer::named_tokens() const {
  return parts_->named_tokens;
}

std::optional<int32_t> Tokenizer::end_token() const {
  return parts_->end_token;
}

std::optional<std::string> Tokenizer::TokenOf(int32_t id) const {
  const std::optional<absl::string_view> token = parts_->TokenOf(id);
  if (!token.has_value()) return std::nullopt;
  return std::string(*token);
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < vocabulary_size() && parts_->is_special[id];
}

const std::vector<PairPiece>& Tokenizer::pair() const {
  return parts_->post_processor.pair;
}

const std::vector<int32_t>& Tokenizer::prefix() const {
  return parts_->post_processor.prefix;
}

const std::vector<int32_t>& Tokenizer::suffix() const {
  return parts_->post_processor.suffix;
}

uint64_t Tokenizer::checksum() const { return parts_->checksum; }

}  // namespace castor::text
