// Text to token ids and back, as PyPI's `tokenizers` does it, from the
// tokenizer.json of a Hugging Face directory; or, where it has none, from the
// vocab.json and merges.txt, or the vocab.txt, that stand for one
// (vocabulary_document.h), or from its SentencePiece model, by SentencePiece's
// own library (sentence_piece.h). The files beside it add tokens to any of them
// (declared_tokens.h).
//
// Words: a *token* is a string of the vocabulary, its *id* the number that a
// model knows it by. *Added tokens* are found in the text as they stand, before
// anything else is done to it; those that are *special* (end of text, padding)
// can be left out when ids are made text again. The text between them goes
// through the parts of the file in turn:
//
//   normalizer      rewrites text                    (normalizer.h)
//   pre-tokenizer   cuts it into pieces              (pre_tokenizer.h)
//   model           makes each piece tokens          (model.h: BPE, WordPiece,
//                                                     Unigram, WordLevel)
//   post-processor  puts special tokens around them  (post_processor.h)
//   decoder         joins tokens to text again       (decoder.h)
//
// docs/tokenizers.md lists what is supported. A file with anything else is
// refused by the part's place and type; there is no part that is passed over.
// The file's "truncation" and "padding" are not applied, as in transformers:
// EncodeOptions sets a bound instead.
//
// Text that is not UTF-8 is read as with Python's errors="replace": U+FFFD
// stands for bytes that cannot be read.
//
// Threads: immutable; any number may use one tokenizer at once. A thread that
// encodes keeps about 1 MB for the words it has met.
#ifndef CASTOR_TEXT_TOKENIZER_TOKENIZER_H_
#define CASTOR_TEXT_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "text/tokenizer/post_processor.h"

namespace castor::text {

struct EncodeOptions {
  // True: the post-processor adds its tokens, such as <s> before the text.
  // Special tokens in the text itself are always found.
  bool add_special_tokens = true;
  // The most ids, those of the post-processor included; the rest is cut off the
  // end. 0: no bound.
  int64_t max_length = 0;
};

class Tokenizer {
 public:
  // Reads the tokenizer of `directory`: tokenizer_files.h. NotFound: it has
  // none, and the message says what is missing. InvalidArgument: a file is
  // none, or has a part that is not supported. FailedPrecondition: a file is
  // there and cannot be read. ResourceExhausted: it takes more memory than
  // there is.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> Load(
      const std::string& directory);
  // Does the same for the text of a tokenizer.json, which errors call `source`.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> Parse(
      absl::string_view json, const std::string& source);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Appends the ids of `text`, at most 1 GiB, to *ids; nothing where it fails.
  // InvalidArgument: max_length is less than the number of tokens that the
  // post-processor adds, or the text has a character that the vocabulary cannot
  // express, and there is no unknown token. ResourceExhausted: a part of the
  // file makes this text too large, or takes too many steps on it
  // (allowance.h).
  absl::Status Encode(absl::string_view text, const EncodeOptions& options,
                      std::vector<int32_t>* ids) const;

  // Returns the text of `ids`. Special tokens are left out if
  // `skip_special_tokens`; as in `tokenizers`, an id that names no token is
  // left out, too (models often have more rows than there are tokens).
  // InvalidArgument: an id is negative. ResourceExhausted: as for Encode, or
  // the tokens have more than 1 GiB.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids,
                                     bool skip_special_tokens) const;

  // The largest id, plus one.
  int64_t vocabulary_size() const;
  std::optional<int32_t> FindToken(absl::string_view token) const;
  // The token that ends a text, as the directory's files or the tokenizer's
  // class have it.
  std::optional<int32_t> end_token() const;
  // The special tokens that have names, by their names: "bos_token",
  // "eos_token" and others that the directory's files or the tokenizer's class
  // name.
  const std::map<std::string, std::string>& named_tokens() const;
  // The token as the vocabulary has it, such as "Ġthe"; none: no token has
  // this id.
  std::optional<std::string> TokenOf(int32_t id) const;
  bool IsSpecial(int32_t id) const;
  // How the post-processor makes one list of tokens of two texts; empty: it
  // does not say.
  const std::vector<PairPiece>& pair() const;
  // The tokens that the post-processor puts before and after a text.
  const std::vector<int32_t>& prefix() const;
  const std::vector<int32_t>& suffix() const;

  // XXH3 of the file's bytes, and of the tokens that the files beside it add: a
  // cache of a tokenizer's results is kept under this number.
  uint64_t checksum() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  const std::unique_ptr<const Parts> parts_;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_TOKENIZER_H_
