// Makes tokens, segments and labels of a record for a model that sees a whole
// sequence (run/config/model_config.h, ModelTask):
//
//   {"text": "...", "label": 1}
//   {"text": "...", "text_pair": "...", "label": 0}
//   {"input_ids": [2, 7, 3], "token_type_ids": [0, 0, 1], "label": 1}
//   {"input_ids": [2, 7, 3], "labels": [-100, 4, -100]}
//   {"text": "...", "text_pair": "...", "next_sentence_label": 0}
//   {"input_ids": [2, 7, 3], "labels": [-100, 4, -100],
//    "next_sentence_label": 0}
//
// Texts become what transformers' tokenizer makes of them with truncation=True
// and max_length: where two are too long together, tokens are taken from the
// end of the longer one until both fit (its strategy "longest_first").
// token_type_ids say the segments; of texts the tokenizer says them.
//
// A sequence's "label" is that of its first token, and no other one has any;
// true is 1 and false 0. "labels" are the tokens' own: those of a token
// classifier, or the words at the places that were masked. Texts for a model
// that says masked words need none: the label of each of their tokens is the
// token itself, for runtime/data/masked_data.h to choose from, and what the
// tokenizer puts around them has none.
//
// A model that says, too, whether the second text follows the first one wants
// pairs and, as transformers' BertForPreTraining has it, "next_sentence_label":
// 0 where it does. The first token's label has both then
// (runtime/data/sequence_label.h).
//
// A record is kept as its tokens' codes, token + vocabulary * segment, and
// their labels.
#ifndef CASTOR_TEXT_DATA_LABELLED_RECORD_H_
#define CASTOR_TEXT_DATA_LABELLED_RECORD_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "run/config/model_config.h"
#include "text/data/json_line.h"
#include "text/data/record_keys.h"
#include "text/data/text_encoding.h"

namespace castor {

struct LabelledRules {
  ModelTask task = ModelTask::kSequenceLabel;  // not kNextToken
  // The model's (Architecture): vocabulary * segments fits 31 bits.
  int64_t vocabulary = 0, labels = 0, segments = 1;
  int64_t sequence_labels = 0;
  int64_t most_tokens = 0;  // of a sequence; what is beyond is cut off
  RecordKeys keys;
  const TextEncoding* encoding = nullptr;  // null: records have no texts
};

// The keys that such records are read by, for a model of so many
// `sequence_labels`.
std::vector<absl::string_view> LabelledKeys(int64_t sequence_labels);

// Different rules have different keys, whatever the encoding is.
uint64_t KeyOf(const LabelledRules& rules);

// Reads the record on `line` into ids (the codes), labels and `unused` of *out.
// InvalidArgument: it is no such record, with what is wrong after its key.
absl::Status ReadLabelledRecord(absl::string_view line,
                                const LabelledRules& rules, JsonLine* out);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_LABELLED_RECORD_H_
