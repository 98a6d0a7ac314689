#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/allowance.h"
#include "text/tokenizer/read_vocabulary.h"
#include "text/tokenizer/unicode/unicode_sets.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

constexpr size_t kMaxTokenBytes = 4096;
// Tokens are looked for in so much of a text at once, and in kMaxTokenBytes
// behind it.
constexpr size_t kBlockBytes = size_t{1} << 18;

bool EndsWithWord(absl::string_view text) {
  size_t place = PreviousPlace(text, text.size());
  return Has(NextCodePoint(text, &place), Trait::kWord);
}

bool BeginsWithWord(absl::string_view text) {
  size_t place = 0;
  return Has(NextCodePoint(text, &place), Trait::kWord);
}

// Returns where the spaces begin at the end of `text`.
size_t BeginOfLastSpaces(absl::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t last = PreviousPlace(text, begin);
    size_t place = last;
    if (!Has(NextCodePoint(text, &place), Trait::kWhitespace)) break;
    begin = last;
  }
  return begin;
}

size_t EndOfFirstSpaces(absl::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    size_t place = end;
    if (!Has(NextCodePoint(text, &place), Trait::kWhitespace)) break;
    end = place;
  }
  return end;
}

}  // namespace

absl::Status AddedTokens::Add(const JsonPart& part, int32_t id, Token token) {
  if (token.shown.empty() || token.shown.size() > kMaxTokenBytes) {
    return part.Error("content", absl::StrCat("has ", token.shown.size(),
                                              " bytes once it is normalized; "
                                              "expected 1 to ",
                                              kMaxTokenBytes));
  }
  if (!ids_.emplace(token.content, id).second ||
      !matchers_[token.normalized].Add(token.shown, id)) {
    return part.Error("content",
                      absl::StrCat(QuotedForMessage(token.content),
                                   " is there twice, or it is normalized to "
                                   "what another one is"));
  }
  if (token.special) special_.insert(token.content);
  tokens_.emplace(id, std::move(token));
  return absl::OkStatus();
}

absl::StatusOr<AddedTokens> AddedTokens::Read(const JsonPart& root,
                                              const Vocabulary& vocabulary,
                                              const Normalizer* normalizer) {
  AddedTokens result;
  if (root.Find("added_tokens") == nullptr) return result;
  CASTOR_ASSIGN_OR_RETURN(const std::vector<JsonPart> parts,
                          root.Objects("added_tokens"));
  auto next_id = static_cast<int64_t>(vocabulary.size());
  size_t bytes = 0;
  for (const JsonPart& part : parts) {
    CASTOR_ASSIGN_OR_RETURN(const std::string content,
                            part.RequiredString("content"));
    bytes += content.size();
  }
  CASTOR_RETURN_IF_ERROR(CheckFitsTrie(root, "added_tokens", bytes));
  Allowance allowance(bytes);  // of all of them together
  for (const JsonPart& part : parts) {
    Token token;
    CASTOR_ASSIGN_OR_RETURN(token.content, part.RequiredString("content"));
    if (token.content.empty()) continue;
    const auto read = [&](absl::string_view key, bool* flag) {
      const absl::StatusOr<bool> value = part.Bool(key, false);
      *flag = value.value_or(false);
      return value.status();
    };
    CASTOR_RETURN_IF_ERROR(read("single_word", &token.single_word));
    CASTOR_RETURN_IF_ERROR(read("lstrip", &token.lstrip));
    CASTOR_RETURN_IF_ERROR(read("rstrip", &token.rstrip));
    CASTOR_RETURN_IF_ERROR(read("normalized", &token.normalized));
    CASTOR_RETURN_IF_ERROR(read("special", &token.special));
    CASTOR_ASSIGN_OR_RETURN(
        const int64_t id,
        part.Int("id", -1, {.min = 0, .max = Vocabulary::kMaxId}));
    int64_t expected = vocabulary.Find(token.content);
    if (expected == Vocabulary::kNone) expected = next_id++;
    if (id != expected) {
      return part.Error(
          "id", absl::StrCat("the id of ", QuotedForMessage(token.content),
                             " is ", id,
                             ", but by the vocabulary, or the "
                             "tokens before it, it must be ",
                             expected));
    }
    token.shown = token.content;
    if (token.normalized && normalizer != nullptr) {
      NormalizedText text = {token.content, &allowance};
      CASTOR_RETURN_IF_ERROR(normalizer->Apply(&text));
      token.shown = std::move(text.text);
    }
    CASTOR_RETURN_IF_ERROR(
        result.Add(part, static_cast<int32_t>(id), std::move(token)));
  }
  for (LongestMatches& matcher : result.matchers_) matcher.Finish();
  return result;
}

absl::Status AddedTokens::Split(absl::string_view text, bool normalized,
                                Part part) const {
  const LongestMatches& matcher = matchers_[normalized];
  struct Match {
    size_t begin, length;
    int32_t id;
  };
  std::vector<Match> matches;  // of a block, the last one first
  size_t at = 0;               // no token begins before it any more
  size_t done = 0;             // what comes before was given to `part`
  size_t spaces_end = 0;       // of those behind the last token with rstrip
  const auto handle = [&](const Match& match) -> absl::Status {
    if (match.begin < at) return absl::OkStatus();
    size_t begin = match.begin, end = begin + match.length;
    at = end;
    const Token& token = tokens_.at(match.id);
    if (token.single_word &&
        ((begin > 0 && EndsWithWord(text.substr(0, begin))) ||
         (end < text.size() && BeginsWithWord(text.substr(end))))) {
      return absl::OkStatus();
    }
    // Spaces that were given away already are not looked at again.
    if (token.lstrip) {
      begin = begin <= done
                  ? done
                  : done + BeginOfLastSpaces(text.substr(done, begin - done));
    }
    if (token.rstrip) {
      if (end > spaces_end) {
        spaces_end = end + EndOfFirstSpaces(text.substr(end));
      }
      end = spaces_end;
    }
    if (done < begin) {
      CASTOR_RETURN_IF_ERROR(part(done, begin, Vocabulary::kNone));
    }
    done = end;
    // `tokenizers` drops a token whose every byte an earlier one has taken.
    return begin < end ? part(begin, end, match.id) : absl::OkStatus();
  };
  for (size_t block = 0; block < text.size() && !matcher.empty();
       block += kBlockBytes) {
    matches.clear();
    matcher.FindBackwards(text, block,
                          std::min(block + kBlockBytes, text.size()),
                          [&](size_t begin, size_t length, int32_t id) {
                            matches.push_back({begin, length, id});
                          });
    for (; !matches.empty(); matches.pop_back()) {
      CASTOR_RETURN_IF_ERROR(handle(matches.back()));
    }
  }
  if (done < text.size()) {
    return part(done, text.size(), Vocabulary::kNone);
  }
  return absl::OkStatus();
}

std::optional<int32_t> AddedTokens::Find(absl::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<absl::string_view> AddedTokens::TokenOf(int32_t id) const {
  const auto found = tokens_.find(id);
  if (found == tokens_.end()) return std::nullopt;
  return found->second.shown;
}

}  // namespace castor::text
