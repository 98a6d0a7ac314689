// The tokens of a tokenizer.json's "added_tokens", which are looked for in a
// text before the model sees it: the leftmost, and the longest there. Each says
//
//   normalized    looked for in the text that the normalizer gives, in its
//                 own normalized form; otherwise in the text as it was given
//   single_word   only where no letter or digit touches it
//   lstrip, rstrip  takes the spaces on its left, or right, with it
//   special       left out of a decoded text, if that is asked for
#ifndef CASTOR_TEXT_TOKENIZER_ADDED_TOKENS_H_
#define CASTOR_TEXT_TOKENIZER_ADDED_TOKENS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/longest_matches.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/vocabulary.h"

namespace castor::text {

class AddedTokens {
 public:
  // Reads the added tokens. `normalizer` may be null. `root` is the whole file,
  // whose "added_tokens" may be missing. InvalidArgument: a token is there
  // twice, also after it was normalized, or its id is not the one that
  // `tokenizers` gives it: its own in the model's vocabulary, otherwise the
  // next that is free behind it.
  static absl::StatusOr<AddedTokens> Read(const JsonPart& root,
                                          const Vocabulary& vocabulary,
                                          const Normalizer* normalizer);

  // Cuts `text` at the tokens that are, or are not, looked for in normalized
  // text: part(begin, end, id) from left to right, where id is kNone for a part
  // between tokens, which is never empty. Ends at the first error.
  using Part =
      absl::FunctionRef<absl::Status(size_t begin, size_t end, int32_t id)>;
  absl::Status Split(absl::string_view text, bool normalized, Part part) const;

  std::optional<int32_t> Find(absl::string_view token) const;
  // Returns the token as it is decoded, normalized or not.
  std::optional<absl::string_view> TokenOf(int32_t id) const;
  bool IsSpecial(absl::string_view token) const {
    return special_.count(std::string(token)) > 0;
  }
  // The largest id plus one; 0: there are none.
  int32_t end_id() const {
    return tokens_.empty() ? 0 : tokens_.rbegin()->first + 1;
  }

 private:
  struct Token {
    std::string content;
    std::string shown;  // as it is looked for and decoded
    bool single_word, lstrip, rstrip, normalized, special;
  };
  absl::Status Add(const JsonPart& part, int32_t id, Token token);

  std::map<int32_t, Token> tokens_;  // by id
  std::map<std::string, int32_t, std::less<>> ids_;
  std::set<std::string> special_;
  // The second finds normalized tokens, the first the others.
  LongestMatches matchers_[2];
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_ADDED_TOKENS_H_
