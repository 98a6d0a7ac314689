// The part of a tokenizer that puts special tokens around those of a text.
#ifndef CASTOR_TEXT_TOKENIZER_POST_PROCESSOR_H_
#define CASTOR_TEXT_TOKENIZER_POST_PROCESSOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"

namespace castor::text {

// Whatever its type, this is what it does to a single text.
struct PostProcessor {
  std::vector<int32_t> prefix, suffix;
};

// A "post_processor" of a tokenizer.json: BertProcessing, ByteLevel (which does
// nothing to ids), RobertaProcessing, Sequence, TemplateProcessing. What it
// says of pairs of texts is not read.
absl::StatusOr<PostProcessor> ReadPostProcessor(const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_POST_PROCESSOR_H_
