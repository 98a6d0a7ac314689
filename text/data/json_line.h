// One line of a JSON-lines file of training data that has texts or tokens.
//
//   {"text": "A document."}
//   {"input_ids": [5, 3, 9], "labels": [-100, 3, 9],
//    "attention_mask": [1, 1, 1]}
//
// The keys and their meaning are those of the data sets of the transformers
// library and of TRL. completion_mask, assistant_masks and loss_mask say with 0
// which tokens are not learned: their labels become -100, whatever labels says,
// as in TRL's DataCollatorForLanguageModeling; without labels the others are
// the tokens. Where a line has input_ids and text, its text does not count.
//
// An unknown key is not used, and is reported. An unknown key is refused if it
// is so near to a known one, which the line lacks, that this one is probably
// meant. A key that says where documents begin within a line is refused, too,
// unless they are to be told apart (line_documents.h).
#ifndef CASTOR_TEXT_DATA_JSON_LINE_H_
#define CASTOR_TEXT_DATA_JSON_LINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "text/data/record_keys.h"

namespace castor {

// A version, raised when lines get another meaning, so that caches of their
// former meaning are not used.
inline constexpr uint64_t kJsonLineRules = 2;

struct JsonLine {
  // Which of the keys were there.
  bool has_text = false, has_ids = false, has_labels = false;
  std::string text;
  std::vector<int32_t> ids;
  // As many as ids where the line has labels. labels[i] is about token i: the
  // model predicts it after token i - 1. -100 (kNoTarget): not counted.
  std::vector<int32_t> labels;
  // Where its documents begin, if they are told apart; empty: it is one.
  std::vector<int64_t> starts;
  // The first few of the keys that are not used.
  std::vector<std::string> unused;
};

// Reads `line`, without its end, whose keys have the names that `keys` says,
// into *out, whose memory is used again. Tokens that attention_mask leaves out,
// which must be at the right end, are not in ids and labels.
// `tells_documents_apart`: the line may have several documents.
// InvalidArgument: says what is wrong, after the key concerned.
absl::Status ReadJsonLine(absl::string_view line, const RecordKeys& keys,
                          JsonLine* out, bool tells_documents_apart = false);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_JSON_LINE_H_
