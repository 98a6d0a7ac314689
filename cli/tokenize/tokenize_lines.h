// Turns lines of text into lines of ids, and back, by a tokenizer; where that
// is null, a line's bytes are its ids.
#ifndef CASTOR_CLI_TOKENIZE_TOKENIZE_LINES_H_
#define CASTOR_CLI_TOKENIZE_TOKENIZE_LINES_H_

#include <functional>
#include <istream>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "text/tokenizer/tokenizer.h"

namespace castor::cli {

// Takes the output for one line of the input, a line end included. Returns
// false if it cannot be written; then no more is given.
using WriteLine = std::function<bool(absl::string_view line)>;

// Writes each line of `in`, without its "\n", as a JSON array of ids, [1,2,3].
// InvalidArgument, ResourceExhausted: the line with this number cannot be
// tokenized; those before it were written.
absl::Status EncodeLines(const text::Tokenizer* tokenizer,
                         bool add_special_tokens, std::istream& in,
                         const WriteLine& write);

// Writes each line of `in`, a JSON array of ids, as text, special tokens
// included. InvalidArgument: the line with this number is no such array, or has
// an id that names no token.
absl::Status DecodeLines(const text::Tokenizer* tokenizer, std::istream& in,
                         const WriteLine& write);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TOKENIZE_TOKENIZE_LINES_H_
