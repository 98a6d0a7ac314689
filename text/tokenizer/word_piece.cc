#include "text/tokenizer/word_piece.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/longest_matches.h"
#include "text/tokenizer/read_vocabulary.h"
#include "text/tokenizer/unicode/utf8.h"
#include "text/tokenizer/word_cache.h"

namespace castor::text {
namespace {

class WordPiece : public Model {
 public:
  WordPiece(Vocabulary vocabulary, const std::string& unk_token,
            const std::string& prefix, int64_t max_chars)
      : Model(std::move(vocabulary)),
        unk_id_(this->vocabulary().Find(unk_token)),
        max_chars_(max_chars) {
    for (int32_t id = 0; id < this->vocabulary().end_id(); ++id) {
      const auto token = this->vocabulary().TokenOf(id);
      if (!token.has_value()) continue;
      first_.Add(*token, id);
      if (absl::StartsWith(*token, prefix) && token->size() > prefix.size()) {
        continuing_.Add(token->substr(prefix.size()), id);
      }
    }
    continuing_.Finish();
  }

  absl::Status Tokenize(absl::string_view piece, Allowance* /*allowance*/,
                        std::vector<int32_t>* ids) const override {
    WordCache& cache = WordCache::OfThisThread();
    const WordCache::Place place = cache.PlaceOf(cache_owner_, piece);
    if (cache.Find(place, piece, ids)) return absl::OkStatus();
    const size_t begin = ids->size();
    CASTOR_RETURN_IF_ERROR(TokenizeWord(piece, ids));
    cache.Keep(place, piece, absl::MakeConstSpan(*ids).subspan(begin));
    return absl::OkStatus();
  }

 private:
  absl::Status TokenizeWord(absl::string_view piece,
                            std::vector<int32_t>* ids) const {
    int64_t chars = 0;
    for (const char byte : piece) chars += IsUtf8Continuation(byte) ? 0 : 1;
    if (chars > max_chars_) return AddUnknown(piece, ids);
    struct Match {
      size_t length = 0;
      int32_t id = Vocabulary::kNone;
    };
    Match first;
    first_.ForEachHead(piece, [&](size_t length, int32_t id) {
      first = {length, id};
    });
    if (first.id == Vocabulary::kNone) return AddUnknown(piece, ids);
    const size_t begin = first.length;
    std::vector<Match> matches(piece.size() - begin);  // by place
    continuing_.FindBackwards(piece, begin, piece.size(),
                              [&](size_t place, size_t length, int32_t id) {
                                matches[place - begin] = {length, id};
                              });
    const size_t before = ids->size();
    ids->push_back(first.id);
    for (size_t place = begin; place < piece.size();) {
      const Match& match = matches[place - begin];
      if (match.id == Vocabulary::kNone) {
        ids->resize(before);
        return AddUnknown(piece, ids);
      }
      ids->push_back(match.id);
      place += match.length;
    }
    return absl::OkStatus();
  }

  absl::Status AddUnknown(absl::string_view piece,
                          std::vector<int32_t>* ids) const {
    if (unk_id_ == Vocabulary::kNone) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the tokenizer has no tokens for ", QuotedForMessage(piece),
          ", and its unk_token is no token either"));
    }
    ids->push_back(unk_id_);
    return absl::OkStatus();
  }

  const int32_t unk_id_;
  const int64_t max_chars_;
  ByteTrie first_;
  LongestMatches continuing_;  // without the prefix
  const uint64_t cache_owner_ = WordCache::NewOwner();
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> ReadWordPiece(
    const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const std::string unk_token,
                          part.String("unk_token", "[UNK]"));
  CASTOR_ASSIGN_OR_RETURN(const std::string prefix,
                          part.String("continuing_subword_prefix", "##"));
  CASTOR_ASSIGN_OR_RETURN(
      const int64_t max_chars,
      part.Int("max_input_chars_per_word", 100, {.min = 0}));
  CASTOR_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary(part));
  CASTOR_RETURN_IF_ERROR(CheckFitsTrie(part, "vocab", vocabulary.size_bytes()));
  return std::make_unique<const WordPiece>(std::move(vocabulary), unk_token,
                                           prefix, max_chars);
}

}  // namespace castor::text
