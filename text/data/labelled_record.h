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
//   {"question": "...", "context": "...",
//    "answers": {"text": ["..."], "answer_start": [17]}}
//   {"input_ids": [2, 7, 3, 9, 3], "token_type_ids": [0, 0, 0, 1, 1],
//    "start_positions": 3, "end_positions": 3}
//
// Texts become the tokens that transformers' tokenizer makes of them with
// truncation=True and max_length: where two are too long together, tokens are
// taken from the end of the longer one until both fit (its strategy
// "longest_first"). token_type_ids give the segments; for texts the tokenizer
// does.
//
// A sequence's "label" is that of its first token, and no other one has any;
// true is 1 and false 0. "labels" are the tokens' own: those of a token
// classifier, or the words at the places that were masked. Texts for a model
// that predicts masked words need none: the label of each of their tokens is
// the token itself, for runtime/data/masked_data.h to choose from, and tokens
// that the tokenizer puts around them have none.
//
// A model that also predicts whether the second text follows the first one
// needs pairs and, as transformers' BertForPreTraining has it,
// "next_sentence_label": 0 where it does. The first token's label has both then
// (runtime/data/sequence_label.h).
//
// A model that predicts spans takes SQuAD's records, question and context as a
// pair. A context that is too long makes several windows (answer_windows.h),
// each a sequence of its own with the whole question. The positions of the
// first answer's first and last token are the targets of a window that has all
// of it; the targets of any other window are its first token's position, twice.
// The first token's label has both targets. Records of tokens give them in
// "start_positions" and "end_positions", as for transformers' models: a
// position behind the sequence's end is none.
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
  int64_t most_tokens = 0;  // of a sequence; the rest is cut off
  int64_t doc_stride = 0;   // of kSpan: how many tokens apart windows begin
  RecordKeys keys;
  const TextEncoding* encoding = nullptr;  // null: records have no texts
};

// Returns the keys by which records are read for a model of this task;
// `sequence_labels` as in LabelledRules.
std::vector<absl::string_view> LabelledKeys(ModelTask task,
                                            int64_t sequence_labels);

// Returns a key that differs for different rules, whatever the encoding is.
uint64_t KeyOf(const LabelledRules& rules);

// Reads the record on `line` into ids (the codes), labels and `unused` of *out,
// and where it has several windows, into `starts`.
// InvalidArgument: it is no such record; says what is wrong after its key.
absl::Status ReadLabelledRecord(absl::string_view line,
                                const LabelledRules& rules, JsonLine* out);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_LABELLED_RECORD_H_
