// Finds the tokens of a text that are an answer, and the windows in which a
// text is read that is too long for a sequence: SQuAD's records (Rajpurkar et
// al., "SQuAD: 100,000+ questions for machine comprehension of text", 2016) as
// BERT reads them (Devlin et al., 2018, section 4.2, and its run_squad.py).
#ifndef CASTOR_TEXT_DATA_ANSWER_WINDOWS_H_
#define CASTOR_TEXT_DATA_ANSWER_WINDOWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/strict_json.h"
#include "text/data/text_encoding.h"

namespace castor {

// A range of a text's tokens, or bytes: [begin, end).
struct TextRange {
  int64_t begin = 0, end = 0;
};

// Returns the bytes of `context` that are the first one of `answers`, which is
// {"text": [...], "answer_start": [...]} or a list of {"text", "answer_start"};
// starts count characters. Absent: there is no answer. InvalidArgument:
// `answers` is neither of these, or the answer does not stand there.
absl::StatusOr<std::optional<TextRange>> FindAnswer(const OrderedJson& answers,
                                                    absl::string_view context);

// Returns the tokens of the context that contain a part of the answer; at least
// one where there are tokens. Encodings give no offsets, so this compares
// `tokens`, which are the whole context's, with the tokens of the text before
// the answer, from it on, through its end, and behind it. An answer that ends
// within a word takes the whole word. InvalidArgument: as encode.
absl::StatusOr<TextRange> TokensOfAnswer(const TextEncoding& encoding,
                                         absl::string_view context,
                                         const std::vector<int32_t>& tokens,
                                         const TextRange& answer);

// Returns the windows of a text of `tokens` tokens: each of at most `room`,
// beginning `stride` tokens apart (or `room`, where that is less). The last one
// is the first that reaches the text's end. A text without tokens has one
// window.
std::vector<TextRange> WindowsOf(int64_t tokens, int64_t room, int64_t stride);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_ANSWER_WINDOWS_H_
