// Regular expressions of tokenizers, written for Oniguruma in its Ruby syntax,
// matched by PCRE2.
//
// A pattern can tell apart at most 255 *kinds* of characters ("a letter", "a
// digit", "\n", ...). So a pattern is translated to one over bytes, each of
// which stands for a kind (translate.h), and the text to those bytes: a match
// takes as long for any script, and our tables say what a letter is (unicode/),
// not the library's.
//
// Cost: PCRE2 says neither how many steps a match took nor how many characters
// it looked at, and both may grow with the square of the text's size, the steps
// even exponentially. So a search goes on in windows: PCRE2 is given few
// characters, few places to begin at and few steps; where it looks beyond the
// window's end (a partial match), or runs out of steps, the same place is tried
// again with more of them. The most steps that each of these tries may have
// taken are subtracted from the text's allowance.
//
// Threads: immutable; any number.
#ifndef CASTOR_TEXT_TOKENIZER_REGEX_REGEX_H_
#define CASTOR_TEXT_TOKENIZER_REGEX_REGEX_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/tokenizer/allowance.h"

namespace castor::text {

class Regex {
 public:
  // Compiles a pattern. InvalidArgument: it is no pattern, or has an
  // unsupported part, which is named.
  static absl::StatusOr<std::unique_ptr<const Regex>> Make(
      absl::string_view pattern);
  // Makes an expression that matches `text` itself and nothing else.
  static absl::StatusOr<std::unique_ptr<const Regex>> MakeLiteral(
      absl::string_view text);

  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // Calls found(begin, end) for each match in `text`, from left to right; they
  // do not overlap, and an empty one does not touch the one before it.
  // ResourceExhausted: it takes more steps or memory than is allowed.
  using Found = absl::FunctionRef<void(size_t begin, size_t end)>;
  absl::Status ForEachMatch(absl::string_view text, Allowance* allowance,
                            Found found) const;

 private:
  struct Compiled;
  explicit Regex(std::unique_ptr<const Compiled> compiled);
  absl::Status Search(absl::string_view kinds, absl::string_view text,
                      Allowance* allowance, Found found) const;

  const std::unique_ptr<const Compiled> compiled_;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_REGEX_REGEX_H_
