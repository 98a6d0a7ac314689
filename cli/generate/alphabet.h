// The tokens that a model's text is made of.
#ifndef CASTOR_CLI_GENERATE_ALPHABET_H_
#define CASTOR_CLI_GENERATE_ALPHABET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/tokenizer/tokenizer.h"

namespace castor::cli {

// A tokenizer's tokens, or bytes.
class Alphabet {
 public:
  // Loads the tokenizer in the directory `place`, or bytes for "bytes"; "": the
  // model has none. InvalidArgument: there is no tokenizer, and the model's
  // tokens cannot be bytes. They are bytes in a directory's model if there are
  // 256, and in any other model if there are at most 256.
  static absl::StatusOr<Alphabet> Load(const std::string& place,
                                       bool must_have_one, int64_t vocabulary);

  // Null: the tokens are bytes.
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }
  // The token that ends a text by the tokenizer's own files.
  std::optional<int32_t> end_token() const;

  // Returns the tokens of a text. InvalidArgument: the text has no token, or
  // one that the model does not know.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              bool add_special_tokens) const;
  absl::StatusOr<std::string> Decode(const std::vector<int32_t>& ids) const;

 private:
  std::unique_ptr<const text::Tokenizer> tokenizer_;  // null: bytes
  int64_t vocabulary_ = 0;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_GENERATE_ALPHABET_H_
