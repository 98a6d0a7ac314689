// The part of a tokenizer that makes tokens of a piece of text.
#ifndef CASTOR_TEXT_TOKENIZER_MODEL_H_
#define CASTOR_TEXT_TOKENIZER_MODEL_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "text/tokenizer/allowance.h"
#include "text/tokenizer/vocabulary.h"

namespace castor::text {

// Immutable; any number of threads.
class Model {
 public:
  virtual ~Model() = default;

  // Appends the ids of `piece`, which is not empty. InvalidArgument: it has a
  // character that the vocabulary cannot express, and there is no unknown
  // token. ResourceExhausted: it takes more steps than the allowance has.
  virtual absl::Status Tokenize(absl::string_view piece, Allowance* allowance,
                                std::vector<int32_t>* ids) const = 0;
  // Does the same for the piece with which a text begins; only SentencePiece's
  // own model treats it differently.
  virtual absl::Status TokenizeFirst(absl::string_view piece,
                                     Allowance* allowance,
                                     std::vector<int32_t>* ids) const {
    return Tokenize(piece, allowance, ids);
  }

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

 private:
  const Vocabulary vocabulary_;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_MODEL_H_
