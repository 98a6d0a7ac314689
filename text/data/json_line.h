// One line of a JSON-lines file of training data.
//
//   {"text": "A document."}
//   {"input_ids": [5, 3, 9], "labels": [-100, 3, 9], "attention_mask": [1, 1,
//   1]}
//
// The keys and their meaning are those of the transformers library's data sets.
// Other keys are read over; where a line has both, its input_ids count and its
// text does not.
#ifndef CASTOR_TEXT_DATA_JSON_LINE_H_
#define CASTOR_TEXT_DATA_JSON_LINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace castor {

struct JsonLine {
  // Which of the keys were there.
  bool has_text = false, has_ids = false, has_labels = false;
  std::string text;
  std::vector<int32_t> ids;
  // As many as ids where the line has labels. labels[i] is about token i: the
  // model says it after token i - 1. -100 (kNoTarget): not counted.
  std::vector<int32_t> labels;
};

// Reads `line`, without its end, into *out, whose memory is used again. What
// attention_mask leaves out, which must be at the right end, is not in ids and
// labels. InvalidArgument: what is wrong, after the key that has it.
absl::Status ReadJsonLine(absl::string_view line, JsonLine* out);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_JSON_LINE_H_
