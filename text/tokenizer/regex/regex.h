// Regular expressions of tokenizers, written for Oniguruma in its Ruby syntax,
// matched by PCRE2.
//
// What a pattern can tell apart is at most 255 *kinds* of characters ("a
// letter", "a digit", "\n", ...). So a pattern is translated to one over bytes,
// of which each stands for a kind (translate.h), and the text to those bytes: a
// match takes as long for any script, and what is a letter is for our tables
// to say (unicode/), not for the library's.
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

namespace castor::text {

class Regex {
 public:
  // InvalidArgument: the pattern is none, or has what is not supported, by
  // name.
  static absl::StatusOr<std::unique_ptr<const Regex>> Make(
      absl::string_view pattern);
  // What matches `text` itself and nothing else.
  static absl::StatusOr<std::unique_ptr<const Regex>> MakeLiteral(
      absl::string_view text);

  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // Calls found(begin, end) for each match in `text`, from left to right; they
  // do not overlap, and an empty one does not touch the one before it.
  // ResourceExhausted: matching takes more steps than kMaxSteps at one place.
  using Found = absl::FunctionRef<void(size_t begin, size_t end)>;
  absl::Status ForEachMatch(absl::string_view text, Found found) const;

  static constexpr int kMaxSteps = 10'000'000;

 private:
  struct Compiled;
  explicit Regex(std::unique_ptr<const Compiled> compiled);
  absl::Status Search(absl::string_view kinds, absl::string_view text,
                      Found found) const;

  const std::unique_ptr<const Compiled> compiled_;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_REGEX_REGEX_H_
