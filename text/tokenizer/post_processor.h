// The part of a tokenizer that puts special tokens around a text's tokens.
#ifndef CASTOR_TEXT_TOKENIZER_POST_PROCESSOR_H_
#define CASTOR_TEXT_TOKENIZER_POST_PROCESSOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"

namespace castor::text {

// A piece of the list that a pair of texts becomes: one of the two texts, or a
// token.
struct PairPiece {
  static constexpr int32_t kFirst = -1, kSecond = -2;
  int32_t token = kFirst;  // its id, or which of the texts
  int32_t segment = 0;     // of all its tokens: the "type_id"
};

// The effect of a post-processor of any type on a single text, and on a pair.
struct PostProcessor {
  std::vector<int32_t> prefix, suffix;
  // Has both texts, in their order; empty where the file does not say how a
  // pair is made, or makes it in another way.
  std::vector<PairPiece> pair;
};

// Reads a "post_processor" of a tokenizer.json: BertProcessing, ByteLevel
// (which does nothing to ids), RobertaProcessing, Sequence, TemplateProcessing.
absl::StatusOr<PostProcessor> ReadPostProcessor(const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_POST_PROCESSOR_H_
