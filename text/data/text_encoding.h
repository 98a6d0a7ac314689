// Turns text into tokens: the part of a tokenizer that data sets need.
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
  // The tokens that are put around a text, as by the tokenizer's
  // post-processor.
  std::vector<int32_t> before, after;
  // How two texts become one list of tokens; empty: they cannot.
  std::vector<text::PairPiece> pair = {};
  // The last token of `before`, as text; "": there is none.
  std::string begin_token;
  // The token that ends a document among others, unless it ends with it
  // already; -1: none.
  int32_t end_of_document = -1;
  // The text of that token, which is encoded as it where it stands in a text;
  // "": there is none.
  std::string end_text;
  // The special tokens that have names, by their names: "bos_token".
  std::map<std::string, std::string> named_tokens;
  // Where there is no end_of_document: says to the user where it was looked
  // for.
  std::string end_looked_for;
  // The text of tokens, special ones included, for the user; null: unknown.
  std::function<absl::StatusOr<std::string>(absl::Span<const int32_t> ids)>
      decode;
  // The texts that a token may be in a text, the likeliest first: with its
  // space and, as where the tokenizer has put that there itself, without. Null:
  // unknown.
  std::function<std::vector<std::string>(int32_t id)> texts_of = nullptr;
  // Where a long text is cut before a space (text_cut.h): true if the space
  // belongs to the second part; false if the tokenizer puts a space before each
  // text itself, so that it must be left out.
  bool keeps_space = true;
  // One more than the largest token that encode can give.
  int64_t vocabulary = 0;
  // The checksum of all that the tokenizer was made from.
  uint64_t checksum = 0;
};

// Returns an encoding with bytes as tokens, 0 to 255.
TextEncoding ByteEncoding();

// Finds by trying whether `encode` keeps the space, and sets keeps_space.
// InvalidArgument: as encode.
absl::Status FindKeepsSpace(TextEncoding* encoding);

// Returns a key that differs for different encodings.
uint64_t KeyOf(const TextEncoding& encoding);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_TEXT_ENCODING_H_
