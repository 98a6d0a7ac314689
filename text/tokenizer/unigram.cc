#include "text/tokenizer/unigram.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "nlohmann/json.hpp"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/read_vocabulary.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr size_t kMaxTokenBytes = 4096;

class Unigram : public Model {
 public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, int32_t unk_id,
          bool byte_fallback);

  absl::Status Tokenize(absl::string_view piece, Allowance* allowance,
                        std::vector<int32_t>* ids) const override;

 private:
  // The best way to a place: its last token, and where that begins.
  struct Step {
    double score = 0;
    int32_t begin = -1;  // none yet
    int32_t id = 0;
  };
  absl::Status FindBest(absl::string_view piece, Allowance* allowance,
                        std::vector<Step>* steps) const;
  absl::Status AddToken(absl::string_view token,
                        std::vector<int32_t>* ids) const;
  absl::Status Unknown(absl::string_view token) const;

  const std::vector<double> scores_;
  const int32_t unk_id_;
  const bool byte_fallback_;
  double unknown_score_;
  ByteTrie trie_;
};

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores,
                 int32_t unk_id, bool byte_fallback)
    : Model(std::move(vocabulary)),
      scores_(std::move(scores)),
      unk_id_(unk_id),
      byte_fallback_(byte_fallback) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t id = 0; id < scores_.size(); ++id) {
    least = std::min(least, scores_[id]);
    const auto token = this->vocabulary().TokenOf(static_cast<int32_t>(id));
    trie_.Add(*token, static_cast<int32_t>(id));
  }
  unknown_score_ = least - kUnknownPenalty;
}

absl::Status Unigram::Unknown(absl::string_view token) const {
  return absl::InvalidArgumentError(
      absl::StrCat("the tokenizer has no token for ", QuotedForMessage(token),
                   " and no unk_id"));
}

absl::Status Unigram::FindBest(absl::string_view piece, Allowance* allowance,
                               std::vector<Step>* steps) const {
  steps->assign(piece.size() + 1, Step());
  for (size_t begin = 0; begin < piece.size();) {
    const double score = (*steps)[begin].score;
    const size_t character = Utf8Length(piece[begin]);
    const auto offer = [&](size_t length, double token_score, int32_t id) {
      Step& step = (*steps)[begin + length];
      const double candidate = token_score + score;
      if (step.begin >= 0 && candidate <= step.score) return;
      step = {candidate, static_cast<int32_t>(begin), id};
    };
    bool has_single = false;
    const size_t seen =
        trie_.ForEachHead(piece.substr(begin), [&](size_t length, int32_t id) {
          offer(length, scores_[id], id);
          has_single = has_single || length == character;
        });
    CASTOR_RETURN_IF_ERROR(allowance->Take(seen));
    if (!has_single) {
      if (unk_id_ == Vocabulary::kNone) {
        return Unknown(piece.substr(begin, character));
      }
      offer(character, unknown_score_, unk_id_);
    }
    begin += character;
  }
  return absl::OkStatus();
}

absl::Status Unigram::AddToken(absl::string_view token,
                               std::vector<int32_t>* ids) const {
  const int32_t id = vocabulary().Find(token);
  if (id != Vocabulary::kNone) {
    ids->push_back(id);
    return absl::OkStatus();
  }
  if (byte_fallback_) {
    const size_t before = ids->size();
    for (const char c : token) {
      constexpr char kHex[] = "0123456789ABCDEF";
      const auto byte = static_cast<uint8_t>(c);
      const char name[] = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15],
                           '>'};
      ids->push_back(vocabulary().Find(absl::string_view(name, sizeof(name))));
    }
    if (std::find(ids->begin() + static_cast<ptrdiff_t>(before), ids->end(),
                  Vocabulary::kNone) == ids->end()) {
      return absl::OkStatus();
    }
    ids->resize(before);
  }
  if (unk_id_ == Vocabulary::kNone) return Unknown(token);
  ids->push_back(unk_id_);
  return absl::OkStatus();
}

absl::Status Unigram::Tokenize(absl::string_view piece, Allowance* allowance,
                               std::vector<int32_t>* ids) const {
  if (piece.size() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        "a piece of more than 2 GiB without a place to cut it");
  }
  std::vector<Step> steps;
  CASTOR_RETURN_IF_ERROR(FindBest(piece, allowance, &steps));
  std::vector<size_t> ends;  // from the last on
  bool last_is_unknown = false;
  for (size_t end = piece.size(); end > 0;) {
    const Step& step = steps[end];
    const bool is_unknown = step.id == unk_id_;
    if (!is_unknown || !last_is_unknown) ends.push_back(end);
    last_is_unknown = is_unknown;
    end = static_cast<size_t>(step.begin);
  }
  size_t begin = 0;
  while (!ends.empty()) {
    CASTOR_RETURN_IF_ERROR(
        AddToken(piece.substr(begin, ends.back() - begin), ids));
    begin = ends.back();
    ends.pop_back();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> ReadUnigram(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const Json* const list, part.List("vocab"));
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& entry = (*list)[i];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() ||
        !entry[1].is_number()) {
      return part.Error("", absl::StrCat("vocab[", i,
                                         "]: expected a token and its score, "
                                         "[\"a\", -1.5], found ",
                                         DescribeJson(entry)));
    }
    const auto& token = entry[0].get_ref<const std::string&>();
    if (i > Vocabulary::kMaxId || token.size() > kMaxTokenBytes ||
        !vocabulary.Add(token, static_cast<int32_t>(i))) {
      return part.Error(
          "",
          absl::StrCat("vocab[", i, "]: the token ", QuotedForMessage(token),
                       " is there twice, has "
                       "more than ",
                       kMaxTokenBytes, " bytes, or is one of too many"));
    }
    scores.push_back(entry[1].get<double>());
  }
  CASTOR_RETURN_IF_ERROR(CheckFitsTrie(part, "vocab", vocabulary.size_bytes()));
  int32_t unk_id = Vocabulary::kNone;
  if (part.Find("unk_id") != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(
        const int64_t id,
        part.Int("unk_id", 0, {.min = 0, .max = vocabulary.end_id() - 1}));
    unk_id = static_cast<int32_t>(id);
  }
  CASTOR_ASSIGN_OR_RETURN(const bool byte_fallback,
                          part.Bool("byte_fallback", false));
  return std::make_unique<const Unigram>(
      std::move(vocabulary), std::move(scores), unk_id, byte_fallback);
}

}  // namespace castor::text
