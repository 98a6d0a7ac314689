#include "text/tokenizer/bpe.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/merges.h"
#include "text/tokenizer/open_table.h"
#include "text/tokenizer/read_vocabulary.h"
#include "text/tokenizer/unicode/code_point_set.h"
#include "text/tokenizer/unicode/utf8.h"
#include "text/tokenizer/word_cache.h"

namespace castor::text {
namespace {

constexpr char32_t kMetaspace = 0x2581;

// Each character of a text may be written, and become bytes, with both.
constexpr size_t kMaxAffixBytes = 64;

struct Options {
  std::optional<std::string> unk_token;
  std::string prefix, suffix;
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
};

class Bpe : public Model {
 public:
  Bpe(Vocabulary vocabulary, Merges merges, Options options);

  absl::Status Tokenize(absl::string_view piece, Allowance* /*allowance*/,
                        std::vector<int32_t>* ids) const override;

 private:
  // Tokenizes a part that TokenizeWord cuts off and looks up by itself.
  absl::Status TokenizePart(absl::string_view part, WordCache& cache,
                            std::vector<int32_t>* ids) const;
  // Appends the tokens of single characters.
  absl::Status Start(absl::string_view word, std::vector<int32_t>* ids) const;
  absl::Status AddUnknown(absl::string_view character, int32_t* pending,
                          std::vector<int32_t>* ids) const;
  bool AddBytes(absl::string_view token, std::vector<int32_t>* ids) const;
  void FindCuts();

  const Merges merges_;
  const Options options_;
  int32_t unk_id_ = Vocabulary::kNone;
  int32_t byte_ids_[256];
  // The first code points have a table, since most text is made of them.
  int32_t char_ids_[512];
  // Characters after which no merge reaches over a following U+2581, so that a
  // text may be cut there and its words be looked up; none: nowhere.
  std::unique_ptr<CodePointTable> cut_after_;
  const uint64_t cache_owner_ = WordCache::NewOwner();
};

Bpe::Bpe(Vocabulary vocabulary, Merges merges, Options options)
    : Model(std::move(vocabulary)),
      merges_(std::move(merges)),
      options_(std::move(options)) {
  if (options_.unk_token.has_value()) {
    unk_id_ = this->vocabulary().Find(*options_.unk_token);
  }
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    const char name[] = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
    byte_ids_[byte] =
        this->vocabulary().Find(absl::string_view(name, sizeof(name)));
  }
  for (char32_t c = 0; c < std::size(char_ids_); ++c) {
    std::string character;
    AppendCodePoint(c, &character);
    char_ids_[c] = this->vocabulary().Find(character);
  }
  FindCuts();
}

void Bpe::FindCuts() {
  std::string metaspace;
  AppendCodePoint(kMetaspace, &metaspace);
  if (options_.ignore_merges || !options_.prefix.empty() ||
      !options_.suffix.empty() ||
      vocabulary().Find(metaspace) == Vocabulary::kNone ||
      unk_id_ == Vocabulary::kNone) {  // what is left out leaves no boundary
    return;
  }
  std::vector<uint8_t> cut(kNumCodePoints, 1);
  for (const int32_t id : merges_.results()) {
    const absl::string_view token = *vocabulary().TokenOf(id);
    char32_t before = kMetaspace;
    for (size_t i = 0; i < token.size();) {
      const bool is_first = i == 0;
      const char32_t c = NextCodePoint(token, &i);
      if (c == kMetaspace && !is_first) cut[before] = 0;
      before = c;
    }
  }
  // A character that is no token stands as "<unk>" or "<0xNN>".
  absl::string_view last_of_unknown = ">";
  if (options_.unk_token.has_value() && !options_.unk_token->empty()) {
    last_of_unknown = *options_.unk_token;
  }
  size_t place = PreviousPlace(last_of_unknown, last_of_unknown.size());
  if (cut['>'] == 0 || cut[NextCodePoint(last_of_unknown, &place)] == 0) return;
  cut_after_ = std::make_unique<CodePointTable>(cut);
}

bool Bpe::AddBytes(absl::string_view token, std::vector<int32_t>* ids) const {
  for (const char byte : token) {
    if (byte_ids_[static_cast<uint8_t>(byte)] == Vocabulary::kNone) {
      return false;
    }
  }
  for (const char byte : token) {
    ids->push_back(byte_ids_[static_cast<uint8_t>(byte)]);
  }
  return true;
}

absl::Status Bpe::AddUnknown(absl::string_view character, int32_t* pending,
                             std::vector<int32_t>* ids) const {
  if (!options_.unk_token.has_value()) return absl::OkStatus();
  if (unk_id_ == Vocabulary::kNone) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the tokenizer has no token for ", QuotedForMessage(character),
        ", and its unk_token ", QuotedForMessage(*options_.unk_token),
        " is no token either"));
  }
  if (*pending != Vocabulary::kNone && !options_.fuse_unk) {
    ids->push_back(*pending);
  }
  *pending = unk_id_;
  return absl::OkStatus();
}

absl::Status Bpe::Start(absl::string_view word,
                        std::vector<int32_t>* ids) const {
  // An unknown token that waits for more to be fused with. It goes on waiting
  // while bytes are added: that is what `tokenizers` does.
  int32_t pending = Vocabulary::kNone;
  const bool plain = options_.prefix.empty() && options_.suffix.empty();
  std::string decorated;
  for (size_t i = 0; i < word.size();) {
    const size_t begin = i;
    const char32_t c = NextCodePoint(word, &i);
    const absl::string_view character = word.substr(begin, i - begin);
    absl::string_view token = character;
    int32_t id;
    if (plain && c < std::size(char_ids_)) {
      id = char_ids_[c];
    } else {
      if (!plain) {
        decorated = absl::StrCat(begin > 0 ? options_.prefix : "", character,
                                 i == word.size() ? options_.suffix : "");
        token = decorated;
      }
      id = vocabulary().Find(token);
    }
    if (id != Vocabulary::kNone) {
      if (pending != Vocabulary::kNone) ids->push_back(pending);
      pending = Vocabulary::kNone;
      ids->push_back(id);
    } else if (!options_.byte_fallback || !AddBytes(token, ids)) {
      CASTOR_RETURN_IF_ERROR(AddUnknown(token, &pending, ids));
    }
  }
  if (pending != Vocabulary::kNone) ids->push_back(pending);
  return absl::OkStatus();
}

absl::Status Bpe::TokenizePart(absl::string_view part, WordCache& cache,
                               std::vector<int32_t>* ids) const {
  if (options_.ignore_merges) {
    if (const int32_t id = vocabulary().Find(part); id != Vocabulary::kNone) {
      ids->push_back(id);
      return absl::OkStatus();
    }
  }
  const WordCache::Place place = cache.PlaceOf(cache_owner_, part);
  if (cache.Find(place, part, ids)) return absl::OkStatus();
  const size_t begin = ids->size();
  CASTOR_RETURN_IF_ERROR(Start(part, ids));
  merges_.Apply(begin, ids);
  cache.Keep(place, part, absl::MakeConstSpan(*ids).subspan(begin));
  return absl::OkStatus();
}

absl::Status Bpe::Tokenize(absl::string_view piece, Allowance* /*allowance*/,
                           std::vector<int32_t>* ids) const {
  WordCache& cache = WordCache::OfThisThread();
  if (cut_after_ == nullptr) return TokenizePart(piece, cache, ids);
  size_t begin = 0;
  char32_t before = kMetaspace;
  for (size_t i = 0; i < piece.size();) {
    const size_t place = i;
    const char32_t c = NextCodePoint(piece, &i);
    if (c == kMetaspace && place > begin && (*cut_after_)[before] != 0) {
      CASTOR_RETURN_IF_ERROR(
          TokenizePart(piece.substr(begin, place - begin), cache, ids));
      begin = place;
    }
    before = c;
  }
  return TokenizePart(piece.substr(begin), cache, ids);
}

// Two strings, or one with a space between them.
absl::Status ReadMerge(const JsonPart& part, const Json& merge, size_t index,
                       absl::string_view* left, absl::string_view* right) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
      merge[1].is_string()) {
    *left = merge[0].get_ref<const std::string&>();
    *right = merge[1].get_ref<const std::string&>();
    return absl::OkStatus();
  }
  if (merge.is_string()) {
    const absl::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != absl::string_view::npos &&
        text.find(' ', space + 1) == absl::string_view::npos) {
      *left = text.substr(0, space);
      *right = text.substr(space + 1);
      return absl::OkStatus();
    }
  }
  return part.Error("", absl::StrCat("merges[", index,
                                     "]: expected two tokens, as [\"a\", "
                                     "\"b\"] or \"a b\", found ",
                                     DescribeJson(merge)));
}

absl::StatusOr<Merges> ReadMerges(const JsonPart& part,
                                  const Vocabulary& vocabulary,
                                  absl::string_view prefix) {
  CASTOR_ASSIGN_OR_RETURN(const Json* const list, part.List("merges"));
  Merges merges(list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& merge = (*list)[i];
    // The first line of a merges.txt.
    if (merge.is_string() &&
        absl::StartsWith(merge.get_ref<const std::string&>(), "#version")) {
      continue;
    }
    absl::string_view left, right;
    CASTOR_RETURN_IF_ERROR(ReadMerge(part, merge, i, &left, &right));
    if (right.size() < prefix.size()) {
      return part.Error(
          "", absl::StrCat("merges[", i, "]: ", QuotedForMessage(right),
                           " is shorter than "
                           "continuing_subword_prefix"));
    }
    const std::string result = absl::StrCat(left, right.substr(prefix.size()));
    int32_t ids[3];
    const absl::string_view tokens[] = {left, right, result};
    for (int t = 0; t < 3; ++t) {
      ids[t] = vocabulary.Find(tokens[t]);
      if (ids[t] != Vocabulary::kNone) continue;
      return part.Error(
          "", absl::StrCat("merges[", i, "]: ", QuotedForMessage(tokens[t]),
                           " is in no vocabulary"));
    }
    merges.Add(ids[0], ids[1], ids[2]);
  }
  return merges;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> ReadBpe(const JsonPart& part) {
  if (const Json* dropout = part.Find("dropout");
      dropout != nullptr && (!dropout->is_number() || *dropout != 0)) {
    return part.Error(
        "dropout",
        absl::StrCat("expected null or 0, found ", DescribeJson(*dropout),
                     ": one text has one list of ids here"));
  }
  Options options;
  CASTOR_ASSIGN_OR_RETURN(options.unk_token, part.OptionalString("unk_token"));
  CASTOR_ASSIGN_OR_RETURN(options.prefix,
                          part.String("continuing_subword_prefix", ""));
  CASTOR_ASSIGN_OR_RETURN(options.suffix,
                          part.String("end_of_word_suffix", ""));
  for (const auto& [key, affix] :
       {std::pair("continuing_subword_prefix", &options.prefix),
        std::pair("end_of_word_suffix", &options.suffix)}) {
    if (affix->size() <= kMaxAffixBytes) continue;
    return part.Error(key,
                      absl::StrCat("has ", affix->size(), " bytes; at most ",
                                   kMaxAffixBytes, " are allowed"));
  }
  CASTOR_ASSIGN_OR_RETURN(options.fuse_unk, part.Bool("fuse_unk", false));
  CASTOR_ASSIGN_OR_RETURN(options.byte_fallback,
                          part.Bool("byte_fallback", false));
  CASTOR_ASSIGN_OR_RETURN(options.ignore_merges,
                          part.Bool("ignore_merges", false));
  CASTOR_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary(part));
  CASTOR_ASSIGN_OR_RETURN(Merges merges,
                          ReadMerges(part, vocabulary, options.prefix));
  return std::make_unique<const Bpe>(std::move(vocabulary), std::move(merges),
                                     std::move(options));
}

}  // namespace castor::text
