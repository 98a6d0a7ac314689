// The file of a SentencePiece model (tokenizer.model, spiece.model): a message
// of Protocol Buffers, ModelProto in sentencepiece_model.proto of
// github.com/google/sentencepiece.
//
// The library that tokenizes with it (sentence_piece_library.h) trusts the
// file: it follows the tries in it past their ends, ends the process or prints
// on some others. So a file is looked through here first, and the library sees
// only files in which nothing can lead it astray.
#ifndef CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_FILE_H_
#define CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/tokenizer/vocabulary.h"

namespace castor::text {

struct SentencePieceFile {
  // The model as the library gets it: the file without its own tests, whose
  // outcome the library would print.
  std::string model;
  Vocabulary vocabulary;
  // The piece for unknown text.
  std::string unknown;
  // True if a text gets a space before it, and loses those at its ends and all
  // but one between words.
  bool adds_prefix = true;
  bool removes_spaces = true;
};

// Reads and checks the file. InvalidArgument: says what is wrong with it,
// without its name.
absl::StatusOr<SentencePieceFile> ReadSentencePieceFile(
    absl::string_view bytes);

// Returns the same model, which puts no space before a text.
std::string WithoutPrefix(absl::string_view model);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_FILE_H_
