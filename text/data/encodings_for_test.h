// Tokenizers of a few lines, with the two habits that matter to code that cuts
// text (text_encoding.h).
#ifndef CASTOR_TEXT_DATA_ENCODINGS_FOR_TEST_H_
#define CASTOR_TEXT_DATA_ENCODINGS_FOR_TEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "text/data/text_encoding.h"

namespace castor {

// A word's token follows from its letters.
inline int32_t TokenOfWord(absl::string_view word) {
  uint32_t hash = 17;
  for (const char c : word) hash = 31 * hash + static_cast<unsigned char>(c);
  return static_cast<int32_t>(10 + hash % 49'990);
}

inline void AddWord(absl::string_view word, std::vector<int32_t>* ids) {
  if (!word.empty()) ids->push_back(TokenOfWord(word));
}

// Encodes as GPT-2 does: a word has the space before it; of more white space
// only the last space is the next word's.
inline absl::Status EncodeLikeGpt2(absl::string_view text,
                                   std::vector<int32_t>* ids) {
  const auto space = [&](size_t i) { return absl::ascii_isspace(text[i]); };
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    if (text[at] == ' ' && at + 1 < text.size() && !space(at + 1)) ++end;
    if (!space(end)) {
      while (end < text.size() && !space(end)) ++end;
    } else {
      while (end < text.size() && space(end)) ++end;
      if (end < text.size() && end - at > 1) --end;
    }
    AddWord(text.substr(at, end - at), ids);
    at = end;
  }
  return absl::OkStatus();
}

// Encodes as Llama 2 does: a space is put before the text, and each word begins
// with its spaces.
inline absl::Status EncodeLikeLlama2(absl::string_view text,
                                     std::vector<int32_t>* ids) {
  if (text.empty()) return absl::OkStatus();
  const std::string whole = " " + std::string(text);
  for (size_t at = 0; at < whole.size();) {
    size_t end = at;
    while (end < whole.size() && whole[end] == ' ') ++end;
    while (end < whole.size() && whole[end] != ' ') ++end;
    AddWord(absl::string_view(whole).substr(at, end - at), ids);
    at = end;
  }
  return absl::OkStatus();
}

// `before` 1, `after` 2, end of document 3.
inline TextEncoding EncodingForTest(
    absl::Status (*encode)(absl::string_view, std::vector<int32_t>*)) {
  TextEncoding encoding;
  encoding.name = "tokenizer \"test\"";
  encoding.encode = encode;
  encoding.before = {1};
  encoding.after = {2};
  encoding.end_of_document = 3;
  encoding.vocabulary = 50'000;
  encoding.checksum = encode == EncodeLikeGpt2 ? 77 : 78;
  CASTOR_CHECK(FindKeepsSpace(&encoding).ok());
  return encoding;
}

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_ENCODINGS_FOR_TEST_H_
