#include "text/data/answer_windows.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace castor {
namespace {

constexpr char kText[] = "text", kStart[] = "answer_start";

// The byte at which character `number` of UTF-8 begins, or the text ends.
// Absent: the text has fewer characters.
std::optional<size_t> ByteOf(absl::string_view text, int64_t number) {
  int64_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && characters++ == number) return i;
  }
  if (characters == number) return text.size();
  return std::nullopt;
}

// The first answer's text and start; null: there is none.
absl::StatusOr<std::pair<const OrderedJson*, const OrderedJson*>> FirstOf(
    const OrderedJson& answers) {
  const absl::Status wrong = absl::InvalidArgumentError(
      "expected {\"text\": [...], \"answer_start\": [...]} with as many of "
      "both, or a list of {\"text\": ..., \"answer_start\": ...}");
  if (answers.is_array()) {
    if (answers.empty()) return std::pair(nullptr, nullptr);
    const OrderedJson& first = answers[0];
    if (!first.is_object() || !first.contains(kText) ||
        !first.contains(kStart)) {
      return wrong;
    }
    return std::pair(&*first.find(kText), &*first.find(kStart));
  }
  if (!answers.is_object()) return wrong;
  const auto texts = answers.find(kText), starts = answers.find(kStart);
  if (texts == answers.end() || starts == answers.end() || !texts->is_array() ||
      !starts->is_array() || texts->size() != starts->size()) {
    return wrong;
  }
  if (texts->empty()) return std::pair(nullptr, nullptr);
  return std::pair(&(*texts)[0], &(*starts)[0]);
}

// Returns how many tokens both have in common at the begin.
int64_t SameAtBegin(const std::vector<int32_t>& a,
                    const std::vector<int32_t>& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
         a.begin();
}

}  // namespace

absl::StatusOr<std::optional<TextRange>> FindAnswer(const OrderedJson& answers,
                                                    absl::string_view context) {
  CASTOR_ASSIGN_OR_RETURN(const auto first, FirstOf(answers));
  const auto [text, start] = first;
  if (text == nullptr) return std::nullopt;
  if (!text->is_string() || !start->is_number_integer() ||
      text->get_ref<const std::string&>().empty()) {
    return absl::InvalidArgumentError(
        "an answer has a \"text\" that is not empty, and an \"answer_start\" "
        "that is an integer");
  }
  const auto& answer = text->get_ref<const std::string&>();
  const std::optional<size_t> begin = ByteOf(context, start->get<int64_t>());
  if (!begin.has_value() || context.substr(*begin, answer.size()) != answer) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the answer ", text->dump(), " does not stand at character ",
        start->dump(), " of the context (answer_start counts from 0)"));
  }
  return TextRange{static_cast<int64_t>(*begin),
                   static_cast<int64_t>(*begin + answer.size())};
}

absl::StatusOr<TextRange> TokensOfAnswer(const TextEncoding& encoding,
                                         absl::string_view context,
                                         const std::vector<int32_t>& tokens,
                                         const TextRange& answer) {
  const auto begin = static_cast<size_t>(answer.begin);
  const auto end = static_cast<size_t>(answer.end);
  std::vector<int32_t> before, through, behind;
  CASTOR_RETURN_IF_ERROR(encoding.encode(context.substr(0, begin), &before));
  CASTOR_RETURN_IF_ERROR(encoding.encode(context.substr(0, end), &through));
  CASTOR_RETURN_IF_ERROR(encoding.encode(context.substr(end), &behind));
  const auto count = static_cast<int64_t>(tokens.size());
  if (count == 0) return TextRange{};
  int64_t first = std::min(SameAtBegin(tokens, before), count - 1);
  // Blanks at a text's end may be cut in another way than in its middle. Where
  // what the encoding makes of the text from the answer on, or from the space
  // before it on, are the context's last tokens, these say where it begins.
  for (const size_t from : {begin, begin - 1}) {
    if (from != begin && (begin == 0 || context[from] != ' ')) break;
    std::vector<int32_t> rest;
    CASTOR_RETURN_IF_ERROR(encoding.encode(context.substr(from), &rest));
    if (rest.empty() || rest.size() > tokens.size() ||
        !std::equal(rest.rbegin(), rest.rend(), tokens.rbegin())) {
      continue;
    }
    first = std::max(first, count - static_cast<int64_t>(rest.size()));
    break;
  }
  int64_t last = SameAtBegin(tokens, through);
  if (last < static_cast<int64_t>(through.size())) {
    const auto same = std::mismatch(tokens.rbegin(), tokens.rend(),
                                    behind.rbegin(), behind.rend());
    last = std::max(last + 1, count - (same.first - tokens.rbegin()));
  }
  return TextRange{first, std::clamp(last, first + 1, count)};
}

std::vector<TextRange> WindowsOf(int64_t tokens, int64_t room, int64_t stride) {
  std::vector<TextRange> windows;
  int64_t end = 0;
  for (int64_t begin = 0; windows.empty() || end < tokens;
       begin += std::min(stride, room)) {
    end = std::min(begin + room, tokens);
    windows.push_back({begin, end});
  }
  return windows;
}

}  // namespace castor
