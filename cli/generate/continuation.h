// Lets a model go on with a text.
#ifndef CASTOR_CLI_GENERATE_CONTINUATION_H_
#define CASTOR_CLI_GENERATE_CONTINUATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/generate/generate_source.h"
#include "cli/generate/sampler.h"
#include "cli/run/session.h"

namespace castor::cli {

// Prints a growing text as far as its characters are whole: a character may be
// made of several tokens.
class Printer {
 public:
  void Show(const std::string& text);
  void Finish(const std::string& text);
  // Ends the line, if one has begun.
  void Break();

 private:
  size_t shown_ = 0;
};

// Loads a session with the source's model, which has read nothing yet. Its
// first pass is of `first_tokens` tokens, and its texts have at most
// `capacity`.
absl::StatusOr<std::unique_ptr<Session>> LoadSession(
    const GenerateSource& source, int64_t first_tokens, int64_t capacity);

struct Continuation {
  Session& session;
  const Sampler& sampler;
  const std::vector<int32_t>& ends;  // the tokens after which a text is over
  int64_t max_new_tokens;
};

// Lets the model read `ids` from `begin` on, all that it has not read, and
// appends the tokens that come next; the last token is not read. After each new
// token that is none of `ends`, `show` sees all ids. Returns true if one of
// `ends` came. FailedPrecondition: a logit is not a number.
absl::StatusOr<bool> Continue(
    const Continuation& how, size_t begin, std::vector<int32_t>* ids,
    absl::FunctionRef<absl::Status(const std::vector<int32_t>&)> show);

}  // namespace castor::cli

#endif  // CASTOR_CLI_GENERATE_CONTINUATION_H_
