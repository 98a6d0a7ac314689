// How text becomes tokens: what the data sets need of a tokenizer.
#ifndef CASTOR_TEXT_DATA_TEXT_ENCODING_H_
#define CASTOR_TEXT_DATA_TEXT_ENCODING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "text/tokenizer/post_processor.h"

namespace castor {

// Immutable; its functions may be called by any number of threads.
struct TextEncoding {
  // Says where it is from: "data.tokenizer \"smollm2\"".
  std::string name;
  // True: tokens are the text's bytes, as they stand in its file.
  bool is_bytes = false;
  // Appends the tokens of `text`, without any that are put around it.
  std::function<absl::Status(absl::string_view text, std::vector<int32_t>* ids)>
      encode;
  // What is put around a text, as by the tokenizer's post-processor.
  std::vector<int32_t> before, after;
  // How two texts become one list of tokens; empty: they do not.
  std::vector<text::PairPiece> pair = {};
  // The last token of `before`, as text; "": there is none.
  std::string begin_token;
  // What ends a document among others, unless it ends with it already; -1:
  // nothing does.
  int32_t end_of_document = -1;
  // The text of that token, which is encoded as it where it stands in a text;
  // "": there is none.
  std::string end_text;
  // The special tokens that have names, by these: "bos_token".
  std::map<std::string, std::string> named_tokens;
  // Where there is no end_of_document: where one was looked for, for the user.
  std::string end_looked_for;
  // The text of tokens, special ones included, for the user; null: unknown.
  std::function<absl::StatusOr<std::string>(absl::Span<const int32_t> ids)>
      decode;
  // The texts that a token may be in a text, the likeliest first: with its
  // space and, as where the tokenizer has put that there itself, without. Null:
  // unknown.
  std::function<std::vector<std::string>(int32_t id)> texts_of = nullptr;
  // Where a long text is cut before a space (text_cut.h), whether the space
  // belongs to the second part, or is what a tokenizer puts before each text
  // and so must be left out.
  bool keeps_space = true;
  // One more than the largest token that encode can give.
  int64_t vocabulary = 0;
  // This is the checksum of all that the tokenizer was made from.
  uint64_t checksum = 0;
};

// Bytes as tokens, 0 to 255.
TextEncoding ByteEncoding();

// Whether an `encode` of a tokenizer keeps the space (see keeps_space), which
// is found by trying. InvalidArgument: what encode returns.
absl::Status FindKeepsSpace(TextEncoding* encoding);

// Different encodings have different keys.
uint64_t KeyOf(const TextEncoding& encoding);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_TEXT_ENCODING_H_
